import Clock
import HubEngine
import Reactor

/// The users that this loop owns.
final class UserOwner: EffectPerformer {
    private var shard: UserShard
    var effects: ContiguousArray<UserShard.Effect> = []
    private let loop: EventLoop
    let runner: Runner
    private let due: DueWork

    init(on loop: EventLoop, _ runner: Runner, _ due: DueWork, limits: ShardLimits) {
        self.loop = loop
        self.runner = runner
        self.due = due
        shard = UserShard(limits: limits)
    }

    func received(_ requests: [UserRequest], from loop: Int) {
        let now = self.loop.now
        input { $0.received(requests, from: loop, now: now, &$1) }
    }

    func tick() {
        let now = loop.now
        input { $0.tick(now: now, &$1) }
    }

    private func input(_ input: (inout UserShard, inout ContiguousArray<UserShard.Effect>) -> Void) {
        run({ input(&shard, &$0) }, { (effect: consuming UserShard.Effect) in perform(consume effect) })
        due.set(.users, at: Self.nextDue(of: &shard))
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
