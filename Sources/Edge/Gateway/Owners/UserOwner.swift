import Channels
import Clock
import Reactor

/// The users that this loop owns.
final class UserOwner {
    private var home: UserHome
    private let loop: EventLoop
    private let runner: Runner
    private let due: DueWork

    init(on loop: EventLoop, _ runner: Runner, _ due: DueWork, limits: HomeLimits) {
        self.loop = loop
        self.runner = runner
        self.due = due
        home = UserHome(limits: limits)
    }

    func received(_ requests: [UserRequest], from loop: Int) {
        let now = self.loop.now
        input { $0.received(requests, from: loop, now: now, &$1) }
    }

    func tick() {
        let now = loop.now
        input { $0.tick(now: now, &$1) }
    }

    private func input(_ input: (inout UserHome, inout ContiguousArray<UserHome.Effect>) -> Void) {
        runner.run {
            var effects: ContiguousArray<UserHome.Effect> = []
            input(&home, &effects)
            for effect in effects {
                switch effect {
                case .answer(let loop, let news): runner.router.tell(.users(news), loop: loop)
                case .tell(let loops, let news): runner.router.tell(.users([news]), loops: loops)
                }
            }
        }
        due.set(.users, at: Self.nextDue(of: &home))
    }

    /// `inout`, because a property would be copied before it is asked.
    private static func nextDue(of home: inout UserHome) -> Instant? { home.nextDue }
}
