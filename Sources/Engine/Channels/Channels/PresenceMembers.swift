import Bytes
import Clock
import Pusher

/// How many users a presence channel may have, and how long their list may be.
package struct MemberBounds {
    package let countMax: Int
    /// Bytes of the list as it is sent.
    package let bytesMax: Int

    package init(countMax: Int, bytesMax: Int) {
        self.countMax = countMax
        self.bytesMax = bytesMax
    }
}

/// The users in a presence channel, by id, byte for byte.
package struct PresenceMembers {
    struct Member {
        /// The newest subscription's word, which stands until a newer one comes or the user is gone.
        var member: PresenceMember
        /// Connections over all loops; none while the user may still come back.
        var connections: Int
        /// The departure that ends the user's grace; 0 where none does.
        var departure: UInt64 = 0
        /// Until then the user lingers on leaving: it had left a moment before it came.
        var settledAt: Instant
        /// Bytes in the list.
        var size: Int
    }

    /// A user as he came to linger; stands for nothing once he has come back, or is gone.
    private struct Leaving {
        let id: String
        let departure: UInt64
    }

    private var members: [TextKey: Member] = [:]
    /// Bytes of the list of them.
    private var bytes = 0
    /// Users who may still come back, and their bytes.
    private var lingering = 0
    private var lingeringBytes = 0
    /// Those, in the order in which they left.
    private var leaving = Fifo<Leaving>()
    /// Who has gone a moment ago.
    private struct Gone {
        /// By which this is forgotten.
        let departure: UInt64
        /// Whether the app's backend has heard of it; else it does by that departure.
        var isTold = false
    }

    private var remembered: [TextKey: Gone] = [:]
    /// All members as clients are told; nil where it must be written anew, since one is gone.
    private var writtenList: MemberList? = MemberList()

    package init() {}

    package var count: Int { members.count }
    /// Nobody is in, and nobody's leave is remembered.
    var isForgotten: Bool { members.isEmpty && remembered.isEmpty }
    var ids: [String] { members.values.map(\.member.id) }
    /// Whether all of the list is written.
    package var isListWritten: Bool { writtenList != nil }

    /// What is told to who comes. Who comes is added to it, and only when somebody is gone is all of it written again.
    package mutating func list() -> MemberList {
        if let writtenList { return writtenList }
        var list = MemberList()
        for entry in members.values { list.append(entry.member.id, info: entry.member.info) }
        writtenList = list
        return list
    }

    // MARK: Room

    /// Whether the user may come beside all others who are in, in place of what is known of the user.
    package func hasRoom(for member: PresenceMember, _ bounds: MemberBounds) -> Bool {
        let known = members[TextKey(member.id)]
        if let known, known.member.info == member.info { return true }
        let size = MemberList.size(member.id, info: member.info)
        guard let known else { return members.count < bounds.countMax && bytes + size <= bounds.bytesMax }
        return size <= known.size || bytes - known.size + size <= bounds.bytesMax
    }

    /// Whether the user may where all others who have no connection are gone.
    package func mayHaveRoom(for member: PresenceMember, _ bounds: MemberBounds) -> Bool {
        let known = members[TextKey(member.id)]
        if let known, known.member.info == member.info { return true }
        let size = MemberList.size(member.id, info: member.info)
        guard let known else {
            return members.count - lingering < bounds.countMax && bytes - lingeringBytes + size <= bounds.bytesMax
        }
        let own = known.departure == 0 ? known.size : 0
        return size <= known.size || bytes - lingeringBytes - own + size <= bounds.bytesMax
    }

    /// Who has no connection for the longest time; nil where all have one.
    mutating func firstToLeave() -> String? {
        while let first = leaving.popFirst() {
            if members[TextKey(first.id)]?.departure == first.departure { return first.id }
        }
        return nil
    }

    // MARK: Coming and going

    func contains(_ id: String) -> Bool { members[TextKey(id)] != nil }

    /// `isNews`: whether what is known of the user is another from here on.
    package enum Arrival: Equatable {
        /// The user's first connection.
        case first
        /// The same, when the user had left a moment ago and the app's backend has not been told of it.
        case again
        /// The same, when it has.
        case anew
        /// One more.
        case further(isNews: Bool)
        /// The user had left a moment ago, and is back before anybody was told.
        case back(isNews: Bool)
    }

    /// A connection of the user comes, whose word of the user takes the place of an older one's. `settledAt`: until when the
    /// user should not leave at once after having just left.
    package mutating func arrive(_ member: PresenceMember, settledAt: Instant) -> Arrival {
        let key = TextKey(member.id)
        guard let known = members[key] else {
            let gone = remembered.removeValue(forKey: key)
            let size = MemberList.size(member.id, info: member.info)
            members[key] = Member(member: member, connections: 1, settledAt: gone == nil ? .min : settledAt, size: size)
            bytes += size
            writtenList?.append(member.id, info: member.info)
            guard let gone else { return .first }
            return gone.isTold ? .anew : .again
        }
        members[key]?.connections += 1
        members[key]?.departure = 0
        if known.departure != 0 {
            lingering -= 1
            lingeringBytes -= known.size
            if lingering == 0 { leaving = Fifo() }
        }
        let isNews = known.member.info != member.info
        if isNews { replace(known, by: member) }
        return known.departure != 0 ? .back(isNews: isNews) : .further(isNews: isNews)
    }

    /// A connection that the user has already says this of the user: true where it is news, and there is room for it.
    mutating func says(_ member: PresenceMember, _ bounds: MemberBounds) -> Bool {
        guard let known = members[TextKey(member.id)], known.member.info != member.info, hasRoom(for: member, bounds)
        else { return false }
        replace(known, by: member)
        return true
    }

    private mutating func replace(_ known: Member, by member: PresenceMember) {
        let key = TextKey(member.id)
        let size = MemberList.size(member.id, info: member.info)
        members[key]?.member = member
        members[key]?.size = size
        bytes += size - known.size
        writtenList = nil
    }

    /// A connection of the user goes: true where it was the last.
    mutating func leave(_ id: String) -> Bool {
        let key = TextKey(id)
        guard let connections = members[key]?.connections, connections > 0 else { return false }
        members[key]?.connections = connections - 1
        return connections == 1
    }

    /// The user, without a connection, is kept until that departure.
    mutating func linger(_ id: String, until departure: UInt64) {
        let key = TextKey(id)
        guard let known = members[key] else { return }
        if known.departure == 0 {
            lingering += 1
            lingeringBytes += known.size
        }
        members[key]?.departure = departure
        leaving.append(Leaving(id: id, departure: departure))
        guard leaving.needsSweep(live: lingering, slack: Self.leavingSlack) else { return }
        let members = members
        leaving.sweep { members[TextKey($0.id)]?.departure == $0.departure }
    }

    /// A hub has many channels, most of them with few users.
    private static let leavingSlack = 8

    /// Whether the user has come back a moment after he had left.
    func isUnsettled(_ id: String, now: Instant) -> Bool { members[TextKey(id)].map { now < $0.settledAt } ?? false }

    /// Whether that departure is the user's still.
    func awaits(_ departure: UInt64, of id: String) -> Bool {
        let key = TextKey(id)
        return members[key]?.departure == departure || remembered[key]?.departure == departure
    }

    package mutating func remove(_ id: String) {
        guard let gone = members.removeValue(forKey: TextKey(id)) else { return }
        bytes -= gone.size
        if gone.departure != 0 {
            lingering -= 1
            lingeringBytes -= gone.size
        }
        if lingering == 0 { leaving = Fifo() }
        writtenList = members.isEmpty ? MemberList() : nil
    }

    /// The user is gone, which is remembered until that departure.
    mutating func remember(_ id: String, until departure: UInt64) {
        remembered[TextKey(id)] = Gone(departure: departure)
    }

    /// The app's backend hears that the user is gone.
    mutating func told(_ id: String) { remembered[TextKey(id)]?.isTold = true }

    /// Forgets that the user has gone. Returns whether the app's backend has heard of it.
    mutating func forget(_ id: String) -> Bool { remembered.removeValue(forKey: TextKey(id))?.isTold == true }
}
