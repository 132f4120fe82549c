import Clock
import HubEngine
import Reactor

/// The users that this loop owns.
final class UserOwner: EffectPerformer {
    private var shard: UserShard
    /// In place of the shard, where another process knows who is online.
    private var linked: LinkedUsers?
    var effects: ContiguousArray<UserShard.Effect> = []
    private let loop: EventLoop
    let runner: Runner
    private let due: DueWork
    /// By which messages to and from that process name them.
    private let apps = KnownApps()
    private let link: LoopLink?

    init(
        on loop: EventLoop, _ runner: Runner, _ due: DueWork, _ context: HubContext, limits: ShardLimits,
        _ link: LoopLink?
    ) {
        self.loop = loop
        self.runner = runner
        self.due = due
        self.link = link
        shard = UserShard(limits: limits)
        linked = link.map { link in
            LinkedUsers { link.send(.user(SentUserCall($0, from: link.hub))) }
        }
        replace(context.firstApps)
    }

    func replace(_ table: AppTable) {
        for app in table.apps { apps.replace(app) }
    }

    func received(_ requests: [UserRequest], from loop: Int) {
        input { now, effects in
            if linked == nil {
                shard.received(requests, from: loop, now: now, &effects)
            } else {
                linked?.received(requests, from: loop, now: now, &effects)
            }
        }
    }

    func tick() {
        input { now, effects in
            if linked == nil { shard.tick(now: now, &effects) } else { linked?.tick(now: now) }
        }
    }

    // MARK: From the shared state

    /// What the bytes say of a user, of whatever loop.
    func news(_ bytes: [UInt8]) throws(SharedProblem) -> SharedUserNews { try SharedUserNews(bytes, apps) }

    /// The link has brought this of one of this loop's users.
    func told(_ news: SharedUserNews) { input { linked?.told(news, &$1) } }

    /// The way to the state was broken.
    func assertAll() { input { now, _ in linked?.assertAll(apps, now: now) } }

    // MARK: Commands

    /// Tells all other hubs.
    func tell(_ command: HubCommand) { link?.send(.command(command)) }

    /// The loop ends.
    func endLink() { link?.send(.end) }

    /// What another hub tells.
    func command(_ bytes: [UInt8]) throws(SharedProblem) -> HubCommand { try HubCommand(bytes, apps) }

    // MARK: In place

    private func input(_ input: (_ now: Instant, inout ContiguousArray<UserShard.Effect>) -> Void) {
        let now = loop.now
        run({ input(now, &$0) }, { (effect: consuming UserShard.Effect) in perform(consume effect) })
        due.set(.users, at: linked.map { $0.nextDue } ?? Self.nextDue(of: &shard))
    }

    private func perform(_ effect: consuming UserShard.Effect) {
        switch consume effect {
        case .answer(let loop, let news): runner.router.tell(.users(news), loop: loop)
        case .tell(let loops, let news): runner.router.tell(.users([news]), loops: loops)
        }
    }

    /// `inout`, because a property would be copied before it is asked.
    private static func nextDue(of shard: inout UserShard) -> Instant? { shard.nextDue }
}
