import Bytes

/// The users in a presence channel, by id, byte for byte.
struct PresenceMembers {
    struct Member {
        /// The first connection's word, which stands until the user is gone.
        let member: PresenceMember
        /// Connections over all loops; none while the user may still come back.
        var connections: Int
        /// The departure that ends the user's grace; 0 where none does.
        var departure: UInt64 = 0
    }

    private var members: [TextKey: Member] = [:]
    /// Users who may still come back.
    private var lingering = 0

    var count: Int { members.count }
    var isEmpty: Bool { members.isEmpty }
    /// Users with a connection.
    var connectedCount: Int { members.count - lingering }
    var ids: [String] { members.values.map(\.member.id) }
    /// With their infos, in no order.
    var all: some Collection<(id: String, info: [UInt8])> {
        members.values.lazy.map { (id: $0.member.id, info: $0.member.info) }
    }

    func contains(_ id: String) -> Bool { members[TextKey(id)] != nil }

    enum Arrival {
        /// The user's first connection.
        case first
        /// One more.
        case further
        /// The user had left a moment ago, and is back before anybody was told.
        case back
    }

    /// A connection of the user comes.
    mutating func arrive(_ member: PresenceMember) -> Arrival {
        let key = TextKey(member.id)
        guard let known = members[key] else {
            members[key] = Member(member: member, connections: 1)
            return .first
        }
        members[key]?.connections += 1
        members[key]?.departure = 0
        guard known.departure != 0 else { return .further }
        lingering -= 1
        return .back
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
        guard let known = members[key]?.departure else { return }
        if known == 0 { lingering += 1 }
        members[key]?.departure = departure
    }

    /// Who has no connection for the longest time; nil where all have one.
    var firstToLeave: String? {
        guard lingering > 0 else { return nil }
        return members.values.lazy.filter { $0.departure != 0 }.min { $0.departure < $1.departure }?.member.id
    }

    /// Whether the user waits for that departure.
    func lingers(_ id: String, until departure: UInt64) -> Bool { members[TextKey(id)]?.departure == departure }

    mutating func remove(_ id: String) {
        if let gone = members.removeValue(forKey: TextKey(id)), gone.departure != 0 { lingering -= 1 }
    }
}
