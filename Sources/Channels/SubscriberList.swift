/// Sessions of one channel, in no order. One, by far the most common number in a user's channel, needs no memory of its
/// own.
///
/// Invariant: `only` stands for nobody unless `many` is empty.
package struct SubscriberList {
    /// The only session, where there is no other.
    package private(set) var only = SessionID.nobody
    /// All sessions, where there are two or more, or have been.
    package private(set) var many: ContiguousArray<SessionID> = []

    /// How many there are.
    package var count: Int { many.isEmpty ? (only == .nobody ? 0 : 1) : many.count }
    package var isEmpty: Bool { many.isEmpty && only == .nobody }

    mutating func append(_ id: SessionID) {
        if !many.isEmpty {
            many.append(id)
        } else if only == .nobody {
            only = id
        } else {
            many = [only, id]
            only = .nobody
        }
    }

    /// Takes out the one at `index`, whose place the last one takes: nil where there is no such place, or it was the last.
    mutating func remove(at index: Int) -> SessionID? {
        guard many.isEmpty else {
            guard index < many.count, let last = many.popLast(), index < many.count else { return nil }
            many[index] = last
            return last
        }
        if index == 0 { only = .nobody }
        return nil
    }

    /// Calls `body` with each.
    package func forEach(_ body: (SessionID) -> Void) {
        if only != .nobody { body(only) }
        for id in many { body(id) }
    }
}

extension SubscriberList: Sequence {
    package func makeIterator() -> ContiguousArray<SessionID>.Iterator {
        (many.isEmpty && only != .nobody ? [only] : many).makeIterator()
    }
}

extension SessionID {
    /// No session: no loop has as many slots.
    static let nobody = SessionID(slot: .max, generation: 0)
}
