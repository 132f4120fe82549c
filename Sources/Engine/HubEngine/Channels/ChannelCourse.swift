import Bytes
import Pusher

/// How far this hub is in a channel whose state is elsewhere: replies and changes may be late, lost or doubled, and come in
/// any order.
///
/// Worst interleavings, all of them in `ChannelHistories` with a slow state, and in `ChannelFaultTests`:
/// - A reply comes before a change that was decided before it. The newcomer waits for the change: else it would hear of
///   somebody who is in its list.
/// - A reply comes after changes that were decided after it. The newcomer is owed them, and nobody else.
/// - A change is lost. The next one does not follow: what is true here is asserted, and the reply says what is true of all.
///   Clients are told the difference.
/// - The state has lost its last changes (a replica took over), and counts them anew. A change that is not above the last
///   one is taken as that, a doubled one too: an assertion costs little.
final class ChannelCourse {
    /// The last change that subscribers here have been told; nil before the first reply.
    var delivered: UInt64?
    /// Sessions whose replies have not come, by the numbers of their calls.
    private(set) var waiting: [UInt64: ChannelEntry] = [:]
    /// The call of the last assertion. It has said that those are in who waited then.
    var lastAssertion: UInt64 = 0
    /// Changes that a late reply may not know, or that nobody was told yet. In order.
    private(set) var recent = ContiguousArray<ChannelChange>()
    /// Sessions whose replies know more than subscribers here have been told, or too little.
    var ready: [(entry: ChannelEntry, loop: Int, entered: Entered)] = []
    /// Whether an assertion is under way.
    var isAsserting = false
    /// The reply to one. It counts once what was decided before it has come, or has had time to.
    var truth: Entered?
    /// Whether one is made after a pause, if there is still a reason.
    var isPausing = false
    /// Whether one more is to be made: it was wanted while one was under way, or the last has said too much.
    var mustAssert = false
    /// The last change that had been told when one was made.
    var toldAtAssertion: UInt64 = 0
    /// What this hub has in the channel, by what the state has replied.
    private(set) var connections = 0
    private(set) var members: [String: Attending.Member] = [:]
    /// The members that clients here know of.
    var known: [String: PresenceMember] = [:]

    /// Changes that are kept. A reply that is older is of no use.
    static let recentMax = 1_024

    var isUnused: Bool {
        waiting.isEmpty && ready.isEmpty && !isAsserting && !isPausing && truth == nil && connections == 0
    }

    /// With those who wait: the state has taken their calls before it takes what follows, unless they were lost.
    var attending: Attending {
        var attending = Attending()
        var members = members
        attending.connections = connections
        for entry in waiting.values where !entry.isRepeated {
            attending.connections += 1
            Self.add(entry.member, to: &members)
        }
        attending.members = Array(members.values)
        return attending
    }

    /// Nobody here was told anything yet.
    func begin(at entered: Entered) {
        delivered = entered.sequence
        known = Dictionary((entered.members?.each ?? []).map { ($0.id, $0) }) { first, _ in first }
    }

    /// Those in `ready` whose replies know no more than that.
    func takeReady(upTo sequence: UInt64) -> [(entry: ChannelEntry, loop: Int, entered: Entered)] {
        guard !ready.isEmpty else { return [] }
        defer { ready.removeAll { $0.entered.sequence <= sequence } }
        return ready.filter { $0.entered.sequence <= sequence }
    }

    func waits(_ entry: ChannelEntry, for number: UInt64) { waiting[number] = entry }

    /// The reply to a session has come. True if it was asserted meanwhile that the session is in.
    func waitEnds(_ number: UInt64) -> Bool {
        waiting[number] = nil
        return lastAssertion > number
    }

    func entered(_ entry: ChannelEntry) {
        guard !entry.isRepeated else { return }
        connections += 1
        Self.add(entry.member, to: &members)
    }

    private static func add(_ member: PresenceMember?, to members: inout [String: Attending.Member]) {
        guard let member else { return }
        members[member.id] = Attending.Member(member, connections: (members[member.id]?.connections ?? 0) + 1)
    }

    func left(_ user: String?) {
        connections -= 1
        guard let user, let known = members[user] else { return }
        members[user] = known.connections > 1 ? Attending.Member(known.member, connections: known.connections - 1) : nil
    }

    /// Keeps a change for who may need it.
    func keep(_ change: ChannelChange) {
        let place = recent.lastIndex { $0.sequence <= change.sequence }.map { $0 + 1 } ?? 0
        guard place == 0 || recent[place - 1].sequence != change.sequence else { return }
        recent.insert(change, at: place)
        if recent.count > Self.recentMax { recent.removeFirst() }
    }

    /// The next change to tell, if it is there. Changes that were told are dropped unless somebody may be owed them.
    func next() -> ChannelChange? {
        guard let delivered else { return nil }
        if waiting.isEmpty, ready.isEmpty, !isAsserting, truth == nil { recent.removeAll { $0.sequence <= delivered } }
        return recent.first { $0.sequence > delivered && $0.follows <= delivered }
    }

    /// Whether a change, or a newcomer, waits for a change that has not come.
    var isInDoubt: Bool {
        guard let delivered else { return mustAssert }
        return mustAssert || truth != nil || !ready.isEmpty || recent.contains { $0.sequence > delivered }
    }

    /// What the others were told since then, as the newcomer is to be told; nil if that is not known any more.
    func owed(to entry: ChannelEntry, since sequence: UInt64) -> ContiguousArray<SharedMessages>? {
        guard let delivered, sequence < delivered else { return [] }
        let missed = recent.filter { $0.sequence > sequence && $0.sequence <= delivered }
        guard let first = missed.first, first.follows <= sequence else { return nil }
        return ContiguousArray(
            missed.lazy.filter { !$0.isSilent(for: entry) }.map { change in
                switch change.broadcast {
                case .passing(let messages): SharedMessages(messages)
                case .kept(let messages): messages
                }
            })
    }

    /// The channel is as a reply says. Clients here are told how what they know differs. Events that were lost stay lost:
    /// ordinary channels have no log. `isSetBack`: the state counts from an earlier change.
    func align(_ key: ChannelKey, with truth: Entered, isSetBack: Bool) -> [ChannelChange] {
        let changes = differences(from: truth).map { what in
            ChannelChange(key: key, follows: 0, sequence: truth.sequence, what: what)
        }
        for change in changes { learns(change) }
        if isSetBack { recent.removeAll() }
        delivered = truth.sequence
        return changes
    }

    private func differences(from entered: Entered) -> [ChannelChange.What] {
        var differences: [ChannelChange.What] = []
        if let each = entered.members?.each {
            let present = Set(each.map(\.id))
            differences += known.keys.filter { !present.contains($0) }.sorted().map { .memberRemoved($0) }
            differences += each.filter { known[$0.id] == nil }.map { .memberAdded($0) }
        }
        if let count = entered.count, delivered != entered.sequence { differences.append(.count(count)) }
        return differences
    }

    /// What clients here know of members, after a change.
    func learns(_ change: ChannelChange) {
        switch change.what {
        case .memberAdded(let member): known[member.id] = member
        case .memberRemoved(let user): known[user] = nil
        case .published, .relayed, .count: break
        }
    }
}
