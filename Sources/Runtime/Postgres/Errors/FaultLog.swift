import Clock
import Logging
import Reactor

/// Logs what the operator should know, each fault once a minute: only codes and our own words. Belongs to one loop.
package final class FaultLog {
    private static let pause = Duration.seconds(60)

    private let loop: EventLoop
    private let logger: Logger
    private let part: String
    private var told: [String: Instant] = [:]

    /// - Parameter part: the part of the hub whose faults these are; each line begins with it.
    package init(_ loop: EventLoop, _ logger: Logger, of part: String) {
        self.loop = loop
        self.logger = logger
        self.part = part
    }

    /// Logs that a statement failed.
    package func tell(_ error: PostgresError, _ level: Logger.Level = .error) {
        tell("a statement failed: \(error.description)", level)
    }

    /// Logs a fault in our own words.
    package func tell(_ fault: String, _ level: Logger.Level = .warning) {
        if let last = told[fault], loop.now.duration(since: last) < Self.pause { return }
        // Forgetting them all may repeat some; keeping them would hide every new one.
        if told.count >= PostgresLimits.faultsMax { told.removeAll() }
        told[fault] = loop.now
        logger.log(level: level, "\(part): \(fault)")
    }
}
