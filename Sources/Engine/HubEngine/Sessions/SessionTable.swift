import Clock

/// The sessions of one loop.
package final class SessionTable {
    /// By slot, as the loop numbers its sources.
    private var sessions: ContiguousArray<Session?> = []
    /// A few bits of each session's user, by slot; 0 without a user. A search for a user's sessions looks only at these.
    private var marks: ContiguousArray<UInt32> = []
    /// When each of them has signed in, by slot.
    private var times: ContiguousArray<UnixTime> = []

    /// All slots taken so far are below this.
    package var slotCount: Int { sessions.count }

    /// The session in this slot; nil if it is free, or was never taken.
    package subscript(slot slot: Int) -> Session? { slot < sessions.count ? sessions[slot] : nil }

    /// The session with that id, if it is still here.
    subscript(id: SessionID) -> Session? {
        guard let session = self[slot: Int(id.slot)], session.id == id else { return nil }
        return session
    }

    func insert(_ session: Session) {
        let slot = Int(session.id.slot)
        while sessions.count <= slot {
            sessions.append(nil)
            marks.append(0)
            times.append(UnixTime(microseconds: 0))
        }
        sessions[slot] = session
    }

    func remove(_ session: Session) {
        marks[Int(session.id.slot)] = 0
        sessions[Int(session.id.slot)] = nil
    }

    /// The session has its first identity.
    func mark(_ session: Session, _ identity: Identity, at now: UnixTime) {
        let slot = Int(session.id.slot)
        marks[slot] = Self.mark(UserKey(identity.user, of: session.app.index))
        times[slot] = now
    }

    /// Never 0, which stands for no user.
    private static func mark(_ user: UserKey) -> UInt32 { user.code | 1 }

    /// The sessions that are signed in as the user.
    ///
    /// - Parameter time: those only that have signed in before.
    package func ids(of user: UserKey, signedInBefore time: UnixTime? = nil) -> [SessionID] {
        let mark = Self.mark(user)
        var found: [SessionID] = []
        for slot in marks.indices where marks[slot] == mark && time.map({ times[slot] < $0 }) ?? true {
            guard let session = sessions[slot], session.app.index == user.app, session.identity?.owns(user.id) == true
            else { continue }
            found.append(session.id)
        }
        return found
    }

    func ids(where isMeant: (Session) -> Bool) -> [SessionID] {
        sessions.compactMap { session in session.flatMap { isMeant($0) ? $0.id : nil } }
    }
}
