/// The pushes that are claimed and not settled: how many of each platform, and how many of each user there.
///
/// A user who has a share is given no more, so that a thousand pushes of one, whose requests hang, leave the room to others.
/// Invariant: each push that was added is removed once, by its outcome.
struct HeldPushes {
    /// A user on a platform.
    struct Holder: Hashable {
        let lane: PushPlatform
        let userID: String
    }

    private var lanes: [PushPlatform: Int] = [:]
    private var holders: [Holder: Int] = [:]
    /// Users who have their share, or more.
    private(set) var full: Set<Holder> = []

    /// All of them.
    var count: Int { lanes.values.reduce(0, +) }

    subscript(lane: PushPlatform) -> Int { lanes[lane, default: 0] }

    mutating func add(_ push: DuePush) {
        let holder = Holder(lane: push.lane, userID: push.userID)
        lanes[holder.lane, default: 0] += 1
        let held = holders[holder, default: 0] + 1
        holders[holder] = held
        if held == OutboxLimits.shareOfUser { full.insert(holder) }
    }

    /// Returns whether its user may be given more again.
    mutating func remove(_ outcome: PushOutcome) -> Bool {
        let holder = Holder(lane: outcome.lane, userID: outcome.userID)
        lanes[holder.lane, default: 0] -= 1
        let held = holders[holder, default: 0] - 1
        holders[holder] = held > 0 ? held : nil
        guard held == OutboxLimits.shareOfUser - 1 else { return false }
        full.remove(holder)
        return true
    }
}
