import Clock
import Logging
import RESP
import Reactor

/// What the log is told of connections to Redis: where, what kind of trouble, and the code of Redis's error; never
/// arguments, and no passwords. One for all clients of a hub, so that one outage is told once. Any thread.
package final class RedisLog: Sendable {
    private let logger: Logger
    private let complaints = LogDeduplicator()
    private let refusedAt = Locked(Instant(nanoseconds: 0))
    /// It must take all calls for that long before it counts as well: replicas that come and go fill no log.
    private static let calm = Duration.seconds(10)

    /// Nothing is told yet.
    package init(_ logger: Logger) { self.logger = logger }

    func isUp(_ name: String, at place: RedisURL.Place) {
        complaints.forget(name)
        logger.info("Redis: \(name) is up", metadata: ["server": "\(place)"])
    }

    /// A server that is up refuses what is asked.
    package func isRefused(_ error: RESPError, at now: Instant = .read()) {
        refusedAt.withLock { $0 = now }
        let code = error.code
        guard complaints.isNew(code, of: "calls") else { return }
        let advice =
            switch code {
            case "OOM": "it is full: raise maxmemory"
            case "NOREPLICAS": "min-replicas-to-write wants more replicas than there are"
            case "NOPERM": "the user may not do what hubs do"
            case "MOVED", "CROSSSLOT", "CLUSTERDOWN": "it is a node of a cluster: name one server, or sentinels"
            default: "it answers \(code)"
            }
        logger.warning(
            "Redis refuses calls, and publishes get 503: \(advice) (told once)", metadata: ["code": "\(code)"])
    }

    /// It takes them.
    package func isTaken(at now: Instant = .read()) {
        guard now.duration(since: refusedAt.withLock(\.self)) >= Self.calm else { return }
        if complaints.forget("calls") { logger.info("Redis takes calls again") }
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
