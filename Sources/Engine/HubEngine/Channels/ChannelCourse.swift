import Bytes
import Clock
import Pusher

/// How far this hub is in a channel whose state is elsewhere: replies and changes may be late, lost or doubled, and come in
/// any order.
///
/// Worst interleavings, all of them in `ChannelHistories` with a slow state, and in `ChannelFaultTests`:
/// - A reply comes before a change that was decided before it. The newcomer waits for the change: else it would hear of
///   somebody who is in its list.
/// - A reply comes after changes that were decided after it. The newcomer is owed them, and nobody else.
/// - A change is lost. The next one does not follow: what is true here is asserted, and the reply says what is true of all.
///   Clients are told the difference, and the events that have come.
/// - A newcomer's reply came from a master that has died, and says more than its successor ever had. An assertion that was
///   made behind it lets the newcomer in: it waited for the channel's next change, half a minute.
/// - The state has lost its last changes (a replica took over), and counts them anew. A change that is not above the last
///   one is taken as that, a doubled one too: an assertion costs little. What came before an assertion was made, and is
///   above its reply, is lost there: also what nobody was told yet, or it would be told once the count has gone that far.
///   What came behind it is of the new count.
/// - An assertion's reply comes before changes that were decided before it, or after some that were decided after it. It
///   waits for the former, and counts with the latter.
final class ChannelCourse {
    /// The last change that subscribers here have been told; nil before the first reply.
    var delivered: UInt64?
    /// Where that began, without what was before.
    private(set) var beginning: UInt64 = 0
    /// Sessions whose replies have not come, by the numbers of their calls.
    private(set) var waiting: [UInt64: ChannelEntry] = [:]
    /// The call of the last assertion. It has said that those are in who waited then.
    private(set) var lastAssertion: UInt64 = 0
    /// Changes that a late reply may not know, or that nobody was told yet. In order.
    private(set) var recent = ContiguousArray<ChannelChange>()
    /// Changes that are not above the last one: the state may have been set back, and count from there.
    private var old = ContiguousArray<ChannelChange>()
    /// Sessions whose replies know more than subscribers here have been told, or too little.
    /// Those whose replies came before the assertion was made are covered: its reply says what is true of them, too.
    var ready: [(newcomer: Newcomer, entered: Entered, isCovered: Bool)] = []
    /// Sessions that are asked for again after a pause: nobody could say whether they are in. The last of each connection.
    private var postponed: [Newcomer.Place: Newcomer] = [:]
    /// Sessions that have left while their calls, or what they are owed, were awaited: they are not asked for again.
    private var withdrawn: [Newcomer.Place: UInt32] = [:]
    /// What this hub has asked the state to take as true.
    enum Assertion {
        case none
        /// `had`: the last change that had come when it was made.
        case underWay(had: UInt64)
        /// The reply. It counts once what was decided before it has come, or has had time to.
        case answered(Entered, had: UInt64)
        /// It is made again after a pause.
        case failed
    }
    var assertion = Assertion.none
    /// Whether one is made after a pause, if there is still a reason.
    var isPausing = false
    /// Whether one more is to be made: it was wanted while one was under way, or the last has said too much.
    var mustAssert = false
    /// What this hub has in the channel, by what the state has replied.
    private(set) var connections = 0
    private(set) var members: [TextKey: Attending.Member] = [:]
    /// What clients here know: the members, and the count that was told last.
    private var known: [TextKey: PresenceMember] = [:]
    private var knownCount: Int?
    /// The members as newcomers are told; nil if somebody was removed or changed, so that it is written anew.
    private var list: MemberList?
    private var listVersion: UInt64 = 0

    /// Changes that are kept. A reply that is older is of no use.
    static let recentMax = 1_024

    var isUnused: Bool { waiting.isEmpty && ready.isEmpty && isSettled && !isPausing && connections == 0 }

    private var isSettled: Bool { if case .none = assertion { true } else { false } }

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

    /// Whether that can be the beginning, where nobody is there to be told: the state tells no hub of changes while the
    /// channel is empty.
    func mayBegin(at entered: Entered, of key: ChannelKey) -> Bool {
        guard !key.name.kind.isPresence || entered.members != nil else { return false }
        return ready.isEmpty && (delivered.map { $0 < entered.sequence } ?? true)
    }

    /// Nobody here was told anything yet.
    func begin(at entered: Entered) {
        delivered = entered.sequence
        beginning = entered.sequence
        known = Self.byID(entered.members)
        (list, listVersion) = (nil, listVersion + 1)
        knownCount = entered.count
    }

    /// The members as clients here know them.
    var present: Entered.Members {
        var list = list ?? MemberList()
        if list.count != known.count { for member in known.values { list.append(member.id, info: member.info) } }
        self.list = list
        return Entered.Members(list: list, version: listVersion, each: nil)
    }

    private func knows(_ member: PresenceMember) {
        let before = known.updateValue(member, forKey: TextKey(member.id))
        guard before != member else { return }
        listVersion += 1
        if before == nil { list?.append(member.id, info: member.info) } else { list = nil }
    }

    private func forgets(_ user: String) {
        guard known.removeValue(forKey: TextKey(user)) != nil else { return }
        (list, listVersion) = (nil, listVersion + 1)
    }

    private static func byID(_ members: Entered.Members?) -> [TextKey: PresenceMember] {
        Dictionary((members?.each ?? []).map { (TextKey($0.id), $0) }) { first, _ in first }
    }

    /// Those in `ready` whose replies know no more than that. Who is here, and whom the state has lost, waits on: a member
    /// would not find itself in its list. The next assertion says that it is in.
    private func takeReady(upTo sequence: UInt64, _ truth: Entered?) -> [(newcomer: Newcomer, entered: Entered)] {
        guard !ready.isEmpty else { return [] }
        var taken: [(newcomer: Newcomer, entered: Entered)] = []
        for (index, one) in ready.enumerated().reversed() {
            guard one.entered.sequence <= sequence || truth != nil && one.isCovered else { continue }
            let user = one.newcomer.entry.member.map { TextKey($0.id) }
            if let user, members[user] != nil, known[user] == nil {
                ready[index].entered.sequence = min(one.entered.sequence, delivered ?? 0)
                mustAssert = true
            } else {
                let one = ready.remove(at: index)
                taken.append((one.newcomer, one.entered))
            }
        }
        return taken.reversed()
    }

    /// A newcomer that goes live, with what the others were told since its reply was decided.
    typealias Admitted = (newcomer: Newcomer, entered: Entered, owed: ContiguousArray<SharedMessages>)

    /// Those in `ready` whose replies, or `truth` in their place, know no more than that. Incomplete where it is not known
    /// any more what somebody is owed: that one waits on.
    func admit(upTo sequence: UInt64, as truth: Entered?) -> (admitted: [Admitted], isIncomplete: Bool) {
        var (admitted, isIncomplete) = ([Admitted](), false)
        for (newcomer, reply) in takeReady(upTo: sequence, truth) {
            var entered = truth ?? reply
            guard let owed = owed(to: newcomer.entry, since: entered.sequence) else {
                ready.append((newcomer, entered, false))
                isIncomplete = true
                continue
            }
            // Their list is as of what has been told by now.
            if newcomer.entry.key.name.kind.isPresence { entered.members = present }
            admitted.append((newcomer, entered, owed))
        }
        return (admitted, isIncomplete)
    }

    /// An assertion was made: the call of that number.
    func asserts(_ number: UInt64) {
        assertion = .underWay(had: last)
        lastAssertion = number
        for index in ready.indices { ready[index].isCovered = true }
    }

    func waits(_ entry: ChannelEntry, for number: UInt64) {
        if waiting.isEmpty, ready.isEmpty { withdrawn = [:] }
        waiting[number] = entry
    }

    /// Takes back that the session in `ready` is in: nobody can say what is true. The next assertion says so.
    func takeBackReady() -> [Newcomer] {
        let taken = exchange(&ready, with: []).map(\.newcomer)
        for newcomer in taken where !newcomer.entry.isRepeated { left(newcomer.entry.member?.id) }
        return taken
    }

    /// Keeps the session until the pause is over, unless it has left, or its time is over. If the connection has subscribed
    /// more than once, only the last counts. Returns the one that does not count, which may be the one given.
    func postpone(_ newcomer: Newcomer, _ now: Instant) -> Newcomer? {
        guard now < newcomer.until, withdrawn[newcomer.place] != newcomer.entry.serial else { return newcomer }
        guard let known = postponed.updateValue(newcomer, forKey: newcomer.place) else { return nil }
        guard Int32(bitPattern: newcomer.entry.serial &- known.entry.serial) < 0 else { return known }
        return postponed.updateValue(known, forKey: known.place)
    }

    /// The session has left. Returns it if it waits to be asked for again.
    func withdraw(_ withdrawal: ChannelWithdrawal, from loop: Int) -> Newcomer? {
        let place = Newcomer.Place(loop: loop, session: withdrawal.session)
        if postponed[place]?.entry.serial == withdrawal.serial { return postponed.removeValue(forKey: place) }
        if !waiting.isEmpty || !ready.isEmpty { withdrawn[place] = withdrawal.serial }
        return nil
    }

    func takePostponed() -> some Sequence<Newcomer> { exchange(&postponed, with: [:]).values }

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

    private static func add(_ member: PresenceMember?, to members: inout [TextKey: Attending.Member]) {
        guard let member else { return }
        let key = TextKey(member.id)
        members[key] = Attending.Member(member, connections: (members[key]?.connections ?? 0) + 1)
    }

    func left(_ user: String?) {
        connections -= 1
        guard let key = user.map({ TextKey($0) }), let known = members[key] else { return }
        members[key] = known.connections > 1 ? Attending.Member(known.member, connections: known.connections - 1) : nil
    }

    /// Whether the change is not above the last one. What it says counts if the state turns out to be set back.
    func isOld(_ change: ChannelChange) -> Bool {
        guard let delivered, change.sequence <= delivered else { return false }
        if old.count < Self.recentMax { old.append(change) }
        return true
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
        if waiting.isEmpty, ready.isEmpty, isSettled { recent.removeAll { $0.sequence <= delivered } }
        return recent.first { $0.sequence > delivered && $0.follows <= delivered }
    }

    /// The last change that has come; 0 before the first reply.
    var last: UInt64 { max(delivered ?? 0, recent.last?.sequence ?? 0) }

    /// Whether the channel's last change, which is that, is not the last that has come: something was missed, or lost.
    func hasMissed(_ sequence: UInt64) -> Bool { delivered != nil && sequence != last }

    /// Whether a change, or a newcomer, waits for a change that has not come.
    var isInDoubt: Bool {
        if mustAssert { return true }
        guard let delivered else { return false }
        if case .answered = assertion { return true }
        return !ready.isEmpty || recent.contains { $0.sequence > delivered }
    }

    /// What the others were told since then, as the newcomer is to be told; nil if that is not known any more.
    private func owed(to entry: ChannelEntry, since sequence: UInt64) -> ContiguousArray<SharedMessages>? {
        guard let delivered, sequence < delivered else { return [] }
        var last = sequence
        var owed = ContiguousArray<SharedMessages>()
        for change in recent where change.sequence > sequence && change.sequence <= delivered {
            guard change.follows <= last else { return nil }
            last = change.sequence
            // The list of members says it already.
            guard change.isEvent || !entry.key.name.kind.isPresence, !change.isSilent(for: entry) else { continue }
            switch change.broadcast {
            case .passing(let messages): owed.append(SharedMessages(messages))
            case .kept(let messages): owed.append(messages)
            case nil: break
            }
        }
        return last == sequence ? nil : owed
    }

    /// The channel is as the reply to an assertion says. Returns what clients here are to be told: the events that have
    /// come, and how what they know differs. Events that were lost stay lost: ordinary channels have no log. `had`: the last
    /// change that had come when it was made. If that is above the reply, the state counts from an earlier change.
    func align(_ key: ChannelKey, with truth: Entered, had: UInt64) -> [ChannelChange] {
        let isSetBack = truth.sequence < had
        let last = delivered ?? 0
        // Clients have been told changes of the new count.
        let isAhead = isSetBack && last > had
        var changes =
            isSetBack
            ? old.filter { $0.isEvent && (isAhead || $0.sequence <= truth.sequence) }
            : recent.filter { $0.isEvent && $0.sequence > last && $0.sequence <= truth.sequence }
        // With what was told since the reply was decided.
        var (present, count) = (truth.members.map(Self.byID), truth.count)
        var since = recent.filter { $0.sequence > max(truth.sequence, isSetBack ? had : 0) && $0.sequence <= last }
        if isAhead { since = ContiguousArray(old.filter { $0.sequence > truth.sequence }) + since }
        for change in since {
            switch change.what {
            case .memberAdded(let member), .memberSays(let member): present?[TextKey(member.id)] = member
            case .memberRemoved(let user): present?[TextKey(user)] = nil
            case .count: count = nil
            case .published, .relayed: break
            }
        }
        changes += differences(present, count).map { what in
            ChannelChange(key: key, follows: 0, sequence: truth.sequence, what: what)
        }
        for change in changes { learns(change) }
        if isSetBack {
            recent.removeAll { $0.sequence <= had }
            if !isAhead { for change in old where change.sequence > truth.sequence { keep(change) } }
        }
        old.removeAll()
        delivered = isSetBack && !isAhead ? truth.sequence : max(last, truth.sequence)
        // Of the new count, all replies are of later.
        if isSetBack { beginning = min(beginning, truth.sequence) }
        return Array(changes)
    }

    private func differences(_ present: [TextKey: PresenceMember]?, _ count: Int?) -> [ChannelChange.What] {
        var differences: [ChannelChange.What] = []
        if let present {
            differences += known.filter { present[$0.key] == nil }.map { .memberRemoved($0.value.id) }
            for (key, member) in present where known[key] != member {
                differences.append(known[key] == nil ? .memberAdded(member) : .memberSays(member))
            }
        }
        if let count, count != knownCount { differences.append(.count(count)) }
        return differences
    }

    /// Whether clients here do not know it: the state tells again what it had lost.
    func isNews(_ change: ChannelChange) -> Bool {
        switch change.what {
        case .memberAdded(let member): known[TextKey(member.id)] == nil
        case .memberRemoved(let user): known[TextKey(user)] != nil
        case .published, .relayed, .memberSays, .count: true
        }
    }

    /// What clients here know, after a change.
    func learns(_ change: ChannelChange) {
        switch change.what {
        case .memberAdded(let member), .memberSays(let member): knows(member)
        case .memberRemoved(let user): forgets(user)
        case .count(let count): knownCount = count
        case .published, .relayed: break
        }
    }

    /// Whether clients here know so many other members that there is no room for this one.
    func isFull(for member: PresenceMember, _ most: Int) -> Bool {
        known.count >= most && known[TextKey(member.id)] == nil
    }
}
