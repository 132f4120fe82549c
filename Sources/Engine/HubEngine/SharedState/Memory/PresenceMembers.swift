import Bytes
import Clock
import Pusher

/// How many users a presence channel may have, and how long their list may be.
package struct MemberBounds {
    /// The most users.
    package let countMax: Int
    /// Bytes of the list as it is sent.
    package let bytesMax: Int

    /// Bounds of one channel.
    package init(countMax: Int, bytesMax: Int) {
        self.countMax = countMax
        self.bytesMax = bytesMax
    }
}

/// The users in a presence channel, by id, byte for byte.
package struct PresenceMembers {
    struct Member {
        /// What the newest subscription says; it stands until a newer one comes or the user is removed.
        var member: PresenceMember
        /// Connections to all hubs; 0 in the grace period.
        var connections: Int32
        /// Those of them to other hubs than `HubID.only`.
        var elsewhere: Int32 = 0
        /// The departure that ends the user's grace; 0 if there is none.
        var departure: UInt64 = 0
        /// Until then even a leave by request gets a grace: the user was removed a moment before it came.
        var settledAt: Instant
        /// Bytes in the list.
        var size: Int
    }

    /// A user whose grace began. Stale once the user is back, or removed.
    private struct Leaving {
        let id: String
        let departure: UInt64
    }

    /// A user of one hub.
    private struct HubUser: Hashable {
        let hub: HubID
        let user: TextKey
    }

    private var members: [TextKey: Member] = [:]
    /// Connections to other hubs than `HubID.only`.
    private var others: [HubUser: Int32] = [:]
    private var bytes = 0
    /// Users in their grace period, and their bytes in the list.
    private var lingering = 0
    private var lingeringBytes = 0
    private var leaving = Fifo<Leaving>()
    /// A user who was removed a moment ago.
    private struct Gone {
        /// The departure at which this record is dropped.
        let departure: UInt64
        /// Whether the app's backend has been told; if not, that departure tells it.
        var isTold = false
    }

    private var remembered: [TextKey: Gone] = [:]
    /// The list of all members as told to clients; nil if a member was removed or changed, so that it is written anew.
    private var writtenList: MemberList? = MemberList()

    /// Nobody is in.
    package init() {}

    /// Users who are in, lingering ones included.
    package var count: Int { members.count }
    /// Nobody is in, and no leave is remembered.
    var isForgotten: Bool { members.isEmpty && remembered.isEmpty }
    var ids: [String] { members.values.map(\.member.id) }
    /// Whether the whole list is written.
    package var isListWritten: Bool { writtenList != nil }

    /// The list for a newcomer. Newcomers are appended; it is written anew only after a removal or a change.
    package mutating func list() -> MemberList {
        if let writtenList { return writtenList }
        var list = MemberList()
        for entry in members.values { list.append(entry.member.id, info: entry.member.info) }
        writtenList = list
        return list
    }

    // MARK: Room

    /// Whether the user may enter, or change what it says, beside all other members.
    package func hasRoom(for member: PresenceMember, _ bounds: MemberBounds) -> Bool {
        let known = members[TextKey(member.id)]
        if let known, known.member.info == member.info { return true }
        let size = MemberList.size(member.id, info: member.info)
        guard let known else { return members.count < bounds.countMax && bytes + size <= bounds.bytesMax }
        return size <= known.size || bytes - known.size + size <= bounds.bytesMax
    }

    /// Whether there would be room if all other members in their grace period were removed.
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

    /// The member in its grace period for the longest time; nil if there is none.
    mutating func firstToLeave() -> String? {
        while let first = leaving.popFirst() {
            if members[TextKey(first.id)]?.departure == first.departure { return first.id }
        }
        return nil
    }

    // MARK: Coming and going

    func contains(_ id: String) -> Bool { members[TextKey(id)] != nil }

    /// `isNews`: whether what is known of the user has changed.
    package enum Arrival: Equatable {
        /// The user's first connection.
        case first
        /// The first again, after a recent leave of which the app's backend has not been told.
        case again
        /// The first again, after a recent leave of which the app's backend has been told.
        case anew
        /// A further connection.
        case further(isNews: Bool)
        /// The user was in its grace period, and is back before anybody was told.
        case back(isNews: Bool)
    }

    /// A connection of the user comes. What it says of the user replaces what an older one said. `settledAt`: until then, a
    /// user who had just left gets a grace at its next leave.
    package mutating func arrive(
        _ member: PresenceMember, of hub: HubID = .only, settledAt: Instant
    ) -> Arrival {
        let arrival = arrive(member, settledAt)
        if hub != .only { count(1, TextKey(member.id), of: hub) }
        return arrival
    }

    private mutating func arrive(_ member: PresenceMember, _ settledAt: Instant) -> Arrival {
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

    /// An existing connection says this of its user. True if it is news, and there is room for it.
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

    /// A connection of the user ends. True if it was the last.
    mutating func leave(_ id: String, of hub: HubID = .only) -> Bool {
        let key = TextKey(id)
        guard let connections = members[key]?.connections, self.connections(of: id, to: hub) > 0 else { return false }
        members[key]?.connections = connections - 1
        if hub != .only { count(-1, key, of: hub) }
        return connections == 1
    }

    private mutating func count(_ change: Int32, _ user: TextKey, of hub: HubID) {
        let key = HubUser(hub: hub, user: user)
        let count = (others[key] ?? 0) + change
        others[key] = count > 0 ? count : nil
        members[user]?.elsewhere += change
    }

    /// The user's connections to one hub.
    func connections(of id: String, to hub: HubID) -> Int {
        let key = TextKey(id)
        guard hub == .only else { return Int(others[HubUser(hub: hub, user: key)] ?? 0) }
        return members[key].map { Int($0.connections - $0.elsewhere) } ?? 0
    }

    /// The users with connections to one hub.
    func users(of hub: HubID) -> [String] {
        guard hub == .only else {
            return others.keys.filter { $0.hub == hub }.compactMap { members[$0.user]?.member.id }
        }
        return members.values.filter { $0.connections > $0.elsewhere }.map(\.member.id)
    }

    /// All of them, one by one.
    var each: [PresenceMember] { members.values.map(\.member) }

    /// Keeps the user, without a connection, until that departure.
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

    /// Small, because a hub has many channels, most with few users.
    private static let leavingSlack = 8

    /// Whether the user came back a moment after it had left.
    func isUnsettled(_ id: String, now: Instant) -> Bool { members[TextKey(id)].map { now < $0.settledAt } ?? false }

    /// Whether that departure is still the user's current one.
    func awaits(_ departure: UInt64, of id: String) -> Bool {
        let key = TextKey(id)
        return members[key]?.departure == departure || remembered[key]?.departure == departure
    }

    /// Removes the user, if there is one of this id.
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

    /// The user is removed. This is remembered until that departure.
    mutating func remember(_ id: String, until departure: UInt64) {
        remembered[TextKey(id)] = Gone(departure: departure)
    }

    mutating func told(_ id: String) { remembered[TextKey(id)]?.isTold = true }

    /// Forgets the user's leave. Returns whether the app's backend has been told of it.
    mutating func forget(_ id: String) -> Bool { remembered.removeValue(forKey: TextKey(id))?.isTold == true }
}
