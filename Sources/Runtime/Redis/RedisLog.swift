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
    /// Those who have left a server for what it refuses.
    private let left = Locked<Set<String>>([])
    /// It must take all calls for that long before it counts as well: replicas that come and go fill no log.
    private static let calm = Duration.seconds(10)

    /// Nothing is told yet.
    package init(_ logger: Logger) { self.logger = logger }

    func isUp(_ name: String, at place: RedisURL.Place) {
        // It is left again at once, and told once: `isTaken` says when it is over.
        guard isCalm(at: .read()) || !left.withLock({ $0.contains(name) }) else { return }
        left.withLock { _ = $0.remove(name) }
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
            case "NOPERM":
                "its user lacks rights: ACL SETUSER USER ~NAME:* &NAME:* +@all -@dangerous +info, with redis.name as NAME"
            case "MOVED", "CROSSSLOT", "CLUSTERDOWN": "it is a node of a cluster: name one server, or sentinels"
            case "ERR": "it answers ERR; does its user lack a right? carillon cluster says which"
            default: "it answers \(code)"
            }
        logger.warning(
            "Redis refuses calls, and publishes get 503: \(advice) (told once)", metadata: ["code": "\(code)"])
    }

    /// It takes them.
    package func isTaken(at now: Instant = .read()) {
        guard isCalm(at: now) else { return }
        if complaints.forget("calls") { logger.info("Redis takes calls again") }
    }

    /// It has refused nothing for a while.
    private func isCalm(at now: Instant) -> Bool { now.duration(since: refusedAt.withLock(\.self)) >= Self.calm }

    func isDown(_ name: String, _ trouble: RedisTrouble, at server: String) {
        if trouble.kind == .prelude, !isCalm(at: .read()) { left.withLock { _ = $0.insert(name) } }
        let complaint = trouble.description
        guard complaints.isNew(complaint, of: name) else { return }
        logger.log(
            level: trouble.isPassing ? .warning : .error,
            "Redis: \(name) is down: \(complaint); trying again (told once for all connections)",
            metadata: ["server": "\(server)"])
    }
}
