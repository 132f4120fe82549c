/// Sessions of one channel, in no order: those that get its events, and, of a stream, those that get pages until they have
/// caught up. One of the former alone, by far the most common in a user's channel, needs no memory of its own.
package struct SubscriberList {
    private enum Content {
        /// Or `nobody`.
        case only(SessionID)
        case several(Several)
    }

    private final class Several {
        var live: ContiguousArray<SessionID>
        var behind: ContiguousArray<SessionID>

        init(live: ContiguousArray<SessionID>, behind: ContiguousArray<SessionID>) {
            self.live = live
            self.behind = behind
        }
    }

    private var content = Content.only(.nobody)

    /// The only session that gets events, where `many` is empty.
    package var only: SessionID? {
        guard case .only(let id) = content, id != .nobody else { return nil }
        return id
    }

    /// All sessions that get events, where they are two or more, or others are behind.
    package var many: ContiguousArray<SessionID> {
        guard case .several(let several) = content else { return [] }
        return several.live
    }

    /// The sessions that get pages.
    package var behind: ContiguousArray<SessionID> {
        guard case .several(let several) = content else { return [] }
        return several.behind
    }

    /// How many get events.
    package var count: Int {
        switch content {
        case .only(let id): id == .nobody ? 0 : 1
        case .several(let several): several.live.count
        }
    }

    package var isEmpty: Bool { count == 0 }

    mutating func append(_ id: SessionID) {
        if case .only(let single) = content, single == .nobody {
            content = .only(id)
        } else {
            change { $0.live.append(id) }
        }
    }

    /// Takes out the one at `index`, whose place the last one takes: nil where there is no such place, or it was the last.
    mutating func remove(at index: Int) -> SessionID? {
        if case .only = content {
            if index == 0 { content = .only(.nobody) }
            return nil
        }
        return change {
            guard index < $0.live.count, let last = $0.live.popLast(), index < $0.live.count else { return nil }
            $0.live[index] = last
            return last
        }
    }

    mutating func appendBehind(_ id: SessionID) {
        change { $0.behind.append(id) }
    }

    mutating func removeBehind(_ id: SessionID) {
        change { $0.behind.removeAll { $0 == id } }
    }

    /// Takes out all that get pages.
    mutating func takeBehind() -> ContiguousArray<SessionID> {
        if case .only = content { return [] }
        return change { exchange(&$0.behind, with: []) }
    }

    /// Changes what takes memory of its own, which is made if there is none and given back when it is of no use. Copies
    /// taken before keep what they were.
    private mutating func change<Result>(_ body: (Several) -> Result) -> Result {
        // Taken out, for the one reference is what tells that nobody else has it.
        var several: Several
        switch exchange(&content, with: .only(.nobody)) {
        case .several(let known): several = known
        case .only(let id): several = Several(live: id == .nobody ? [] : [id], behind: [])
        }
        if !isKnownUniquelyReferenced(&several) { several = Several(live: several.live, behind: several.behind) }
        let result = body(several)
        if several.behind.isEmpty, several.live.count <= 1 {
            content = .only(several.live.first ?? .nobody)
        } else {
            content = .several(several)
        }
        return result
    }
}

extension SubscriberList: Sequence {
    package func makeIterator() -> ContiguousArray<SessionID>.Iterator {
        (only.map { [$0] } ?? many).makeIterator()
    }
}

extension SessionID {
    /// No session: no loop has as many slots.
    package static let nobody = SessionID(slot: .max, generation: 0)
}
