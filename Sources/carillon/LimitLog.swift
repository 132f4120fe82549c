import Clock
import Gateway
import Logging
import Reactor

/// Logs which limits have stopped clients: one line for each limit and interval.
///
/// The latest client's address tells where to look, or what to add to `trustedProxies`. No user, channel or key.
struct LimitLog {
    private let metrics: GatewayMetrics
    private let logger: Logger
    private var toldAt: Instant

    /// The time between two checks.
    static let interval = Duration.seconds(10)

    init(_ metrics: GatewayMetrics, _ logger: Logger, now: Instant = .read()) {
        self.metrics = metrics
        self.logger = logger
        toldAt = now
    }

    /// Logs new notes if the interval has passed.
    mutating func look(now: Instant = .read()) {
        guard now.duration(since: toldAt) >= Self.interval else { return }
        toldAt = now
        tell()
    }

    func tell() {
        for note in metrics.takeLimitNotes() {
            logger.log(
                level: note.isRoutine ? .debug : .notice, "clients reached a limit",
                metadata: [
                    "limit": "\(note.limit)", "kind": "\(note.kind.rawValue)", "count": "\(note.count)",
                    "latest": "\(note.address)",
                ])
        }
    }
}
