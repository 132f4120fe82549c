import Clock
import Gateway
import Logging
import Reactor

/// Tells the log of clients whom limits have stopped, one line for each limit in a while.
///
/// An address is the latest one's: it tells an operator where to look, or whom to name in `trustedProxies`. No user, channel or
/// key is said.
struct LimitLog {
    private let metrics: GatewayMetrics
    private let logger: Logger
    private var toldAt: Instant

    /// From one look at the notes to the next.
    static let interval = Duration.seconds(10)

    init(_ metrics: GatewayMetrics, _ logger: Logger, now: Instant = .read()) {
        self.metrics = metrics
        self.logger = logger
        toldAt = now
    }

    /// Says what there is to say, if it is time.
    mutating func look(now: Instant = .read()) {
        guard now.duration(since: toldAt) >= Self.interval else { return }
        toldAt = now
        tell()
    }

    /// Says what there is to say.
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
