/// Sessions of one channel, in no order. One, by far the most common number in a user's channel, needs no memory of its
/// own.
///
/// Invariant: `single` stands for nobody unless `many` is empty.
package struct SubscriberList {
    private var single = SessionID.nobody
    /// All sessions, where there are two or more, or have been.
    package private(set) var many: ContiguousArray<SessionID> = []

    /// The only session, where there is no other.
    package var only: SessionID? { single == .nobody ? nil : single }
    /// How many there are.
    package var count: Int { many.isEmpty ? (single == .nobody ? 0 : 1) : many.count }
    package var isEmpty: Bool { many.isEmpty && single == .nobody }

    mutating func append(_ id: SessionID) {
        if !many.isEmpty {
            many.append(id)
        } else if single == .nobody {
            single = id
        } else {
            many = [single, id]
            single = .nobody
        }
    }

    /// Takes out the one at `index`, whose place the last one takes: nil where there is no such place, or it was the last.
    mutating func remove(at index: Int) -> SessionID? {
        guard many.isEmpty else {
            guard index < many.count, let last = many.popLast(), index < many.count else { return nil }
            many[index] = last
            return last
        }
        if index == 0 { single = .nobody }
        return nil
    }
}

extension SubscriberList: Sequence {
    package func makeIterator() -> ContiguousArray<SessionID>.Iterator {
        (single == .nobody ? many : [single]).makeIterator()
    }
}

extension SessionID {
    /// No session: no loop has as many slots.
    package static let nobody = SessionID(slot: .max, generation: 0)
}
