import HubEngine
import Metrics
import Reactor

extension SharedArrival {
    func perform(on loop: ClientLoop) {
        switch self {
        case .news(let messages):
            Self.each(messages, on: loop) { (bytes) throws(SharedProblem) in try Self.perform(bytes, on: loop) }
        case .webhooks(let events, let receipt):
            Self.each(events, on: loop) { (bytes) throws(SharedProblem) in try loop.channels.tell(bytes, receipt) }
        case .unserved(let count): loop.hubContext.webhooks?.dropped(unserved: count)
        case .gap:
            loop.channels.assertAll()
            loop.users.assertAll()
        case .ended: if loop.isStopping, loop.loop.sourceCount == 0 { loop.loop.handle.stop() }
        }
    }

    /// What cannot be read is dropped, and counted.
    private static func each(
        _ messages: [[UInt8]], on loop: ClientLoop, _ perform: ([UInt8]) throws(SharedProblem) -> Void
    ) {
        for bytes in messages {
            do throws(SharedProblem) {
                try perform(bytes)
            } catch {
                loop.metrics.engine.sharedProblems[error.rawValue].add()
            }
        }
    }

    /// What is about a user is for the loop that owns it; a command is for all.
    private static func perform(_ bytes: [UInt8], on loop: ClientLoop) throws(SharedProblem) {
        switch SharedSubject(of: bytes) {
        case .channels: loop.channels.received(bytes)
        case .users:
            let news = try loop.users.news(bytes)
            let user = news.news.user
            loop.router.have(user.shard(loops: loop.router.loops), for: user.app, on: loop) { $0.users.told(news) }
        case .command:
            switch try loop.users.command(bytes) {
            case .terminate(let app, let id, let age):
                let user = UserKey(id, of: app)
                let age = age > 0 ? Duration.milliseconds(Int64(clamping: age)) : nil
                for other in loop.router.all {
                    loop.router.have(other, for: app, on: loop) { $0.terminate(user, told: age) }
                }
            case .revoked(let revocations):
                for other in loop.router.all { loop.router.ask(other) { $0.revoked(revocations) } }
            }
        case nil: throw .malformed
        }
    }
}
