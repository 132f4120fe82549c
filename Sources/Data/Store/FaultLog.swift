import Clock
import Logging
import Postgres
import Reactor

/// Logs what the operator should know, each fault once a minute: only codes and our own words. Belongs to the store's loop.
final class FaultLog {
    private static let pause = Duration.seconds(60)

    private let loop: EventLoop
    private let logger: Logger
    private var told: [String: Instant] = [:]

    init(_ loop: EventLoop, _ logger: Logger) {
        self.loop = loop
        self.logger = logger
    }

    /// Logs an action's error, except for locks and lost races, which are no faults.
    func tell(ofAction error: PostgresError) {
        switch error.advice {
        case .again, .outdated, .locked: break
        case .constraint, .refused: tell(error, .warning)
        case .readOnly, .unavailable, .failed, .broken: tell(error)
        }
    }

    func tell(_ error: PostgresError, _ level: Logger.Level = .error) {
        tell("a statement failed: \(error.description)", level)
    }

    func tell(_ fault: String, _ level: Logger.Level = .warning) {
        if let last = told[fault], loop.now.duration(since: last) < Self.pause { return }
        // Forgetting them all may repeat some; keeping them would hide every new one.
        if told.count >= StoreLimits.faultsMax { told.removeAll() }
        told[fault] = loop.now
        logger.log(level: level, "store: \(fault)")
    }
}
