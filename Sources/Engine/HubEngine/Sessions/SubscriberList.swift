/// Sessions of one channel, unordered: live ones, which get its events, and (in a stream) ones behind, which get pages until
/// they have caught up. A single live one, by far the most common in a user's channel, needs no heap memory.
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

    /// The only live session, where `many` is empty.
    package var only: SessionID? {
        guard case .only(let id) = content, id != .nobody else { return nil }
        return id
    }

    /// All live sessions, where they are two or more, or others are behind.
    package var many: ContiguousArray<SessionID> {
        guard case .several(let several) = content else { return [] }
        return several.live
    }

    /// The sessions behind.
    package var behind: ContiguousArray<SessionID> {
        guard case .several(let several) = content else { return [] }
        return several.behind
    }

    /// Live sessions.
    package var count: Int {
        switch content {
        case .only(let id): id == .nobody ? 0 : 1
        case .several(let several): several.live.count
        }
    }

    /// Nobody is subscribed.
    package var isEmpty: Bool { count == 0 }

    mutating func append(_ id: SessionID) {
        if case .only(let single) = content, single == .nobody {
            content = .only(id)
        } else {
            change { $0.live.append(id) }
        }
    }

    /// Removes the session at `index`; the last one moves there. Returns the moved one; nil where none moved.
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

    mutating func takeBehind() -> ContiguousArray<SessionID> {
        if case .only = content { return [] }
        return change { exchange(&$0.behind, with: []) }
    }

    /// Changes the heap part: made where there is none, freed when of no use. Earlier copies keep what they were.
    private mutating func change<Result>(_ body: (Several) -> Result) -> Result {
        // Taken out, because a unique reference shows that no copy has it.
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
    /// Walks the subscribers that get events as they come, without those behind.
    package func makeIterator() -> ContiguousArray<SessionID>.Iterator {
        (only.map { [$0] } ?? many).makeIterator()
    }
}

extension SessionID {
    /// No session: no loop has so many slots.
    package static let nobody = SessionID(slot: .max, generation: 0)
}
