import Logging
import Reactor

/// What the log is told of connections to Redis: where, what kind of trouble, and the code of Redis's error; never
/// arguments, and no passwords. One for all clients of a hub, so that one outage is told once. Any thread.
package final class RedisLog: Sendable {
    private let logger: Logger
    private let complaints = LogDeduplicator()

    /// Nothing is told yet.
    package init(_ logger: Logger) { self.logger = logger }

    func isUp(_ name: String, at place: RedisURL.Place) {
        complaints.forget(name)
        logger.info("Redis: \(name) is up", metadata: ["server": "\(place)"])
    }

    func isDown(_ name: String, _ trouble: RedisTrouble, at server: String) {
        let complaint = trouble.description
        guard complaints.isNew(complaint, of: name) else { return }
        logger.log(
            level: trouble.isPassing ? .warning : .error,
            "Redis: \(name) is down: \(complaint); trying again (told once for all connections)",
            metadata: ["server": "\(server)"])
    }
}
