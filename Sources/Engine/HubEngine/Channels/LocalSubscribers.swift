import Pusher

/// The subscribers that this hub has in one ordinary channel, on all loops.
///
/// Invariant: it is in the shard's table exactly while there is one, or one waits to be let in.
final class LocalSubscribers {
    let key: ChannelKey
    /// Sessions on each loop.
    private var counts: ContiguousArray<UInt32>
    /// The loops with sessions in it.
    private(set) var loops: LoopSet = []
    private var total = 0
    /// Where the channel's state is elsewhere.
    private(set) var course: ChannelCourse?
    /// There too: it is not one of this hub's channels any more.
    var leavesQuota: (() -> Void)?
    /// What newcomers are told of the members of that version. Kept from the second newcomer on.
    private var listVersion: UInt64 = 0
    private var membersTold: SharedMessages?

    init(_ key: ChannelKey, loops: Int) {
        self.key = key
        counts = ContiguousArray(repeating: 0, count: loops)
    }

    var isUnused: Bool { total == 0 && course?.isUnused != false }

    func madeCourse() -> ChannelCourse {
        if let course { return course }
        let course = ChannelCourse()
        self.course = course
        return course
    }

    func add(_ loop: Int) {
        counts[loop] += 1
        total += 1
        loops.insert(LoopSet(loop: loop))
    }

    /// False if the loop has nobody in it.
    func subtract(_ loop: Int) -> Bool {
        guard counts[loop] > 0 else { return false }
        counts[loop] -= 1
        total -= 1
        if counts[loop] == 0 { loops.remove(LoopSet(loop: loop)) }
        return true
    }

    // MARK: Messages

    /// Tells all of them of the change, but for who sent it, or is not to be told.
    func tell(_ change: ChannelChange, by sender: ChannelChange.Sender? = nil, _ effects: inout ChannelShard.Effects) {
        guard !loops.isEmpty, let broadcast = change.broadcast else { return }
        effects.append(
            .broadcast(
                loops: loops, key, broadcast, except: change.exclusion(sender), isEvent: change.isEvent))
    }

    /// Versions of lists begin anew.
    func forgetList() { membersTold = nil }

    func messages(_ members: Entered.Members) -> SharedMessages {
        // The list is not written and compressed for every entry: a client may ask again and again without a signature, and
        // users add connections or come back. A list that has just changed is likely to change with the next entry.
        let isKnown = listVersion == members.version
        if isKnown, let membersTold { return membersTold }
        let messages = SharedMessages(.entered(key.name, members: members.list))
        listVersion = members.version
        membersTold = isKnown ? messages : nil
        return messages
    }
}

/// The ordinary channels that this hub has subscribers in, or sessions that wait.
struct LocalChannels {
    private let loops: Int
    private var channels: [ChannelKey: LocalSubscribers] = [:]
    /// To a state elsewhere, which is told what this hub wants to hear of.
    private let link: LinkedChannels?

    init(loops: Int, _ link: LinkedChannels?) { (self.loops, self.link) = (loops, link) }

    var count: Int { channels.count }
    var keys: some Sequence<ChannelKey> { channels.keys }

    subscript(key: ChannelKey) -> LocalSubscribers? { channels[key] }

    mutating func held(_ key: ChannelKey) -> LocalSubscribers {
        if let local = channels[key] { return local }
        let local = LocalSubscribers(key, loops: loops)
        channels[key] = local
        if let link { link.send(.follow(key)) }
        return local
    }

    /// The channel, where its state is elsewhere: the state knows no bounds of hubs. One that is new here counts in the
    /// quota for as long as it is here.
    ///
    /// - Parameter others: channels that are not here any more, which the state has not been told.
    mutating func held(
        for entry: ChannelEntry, _ quota: ChannelQuota, _ apps: KnownApps, _ limits: ShardLimits, beside others: Int
    ) -> Result<LocalSubscribers, EntryRefusal> {
        if let local = channels[entry.key] { return .success(local) }
        let app = apps.known(entry.app)
        do throws(EntryRefusal) {
            guard others < limits.channelsMax else { throw .channelsFull }
            try quota.enter(
                app, subscriptions: entry.subscriptionCount, most: limits.channelsMax, few: limits.fewChannels)
        } catch {
            app.counts.refused(.channels)
            return .failure(error)
        }
        let local = held(entry.key)
        local.leavesQuota = { if let app = apps[app.index] { quota.leave(app) } }
        return .success(local)
    }

    mutating func removeIfUnused(_ local: LocalSubscribers) {
        guard local.isUnused else { return }
        channels[local.key] = nil
        guard let link else { return }
        local.leavesQuota?()
        local.leavesQuota = nil
        link.send(.unfollow(local.key))
    }
}
