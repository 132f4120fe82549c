import Clock
import Identity
import Logging
import Metrics

/// Logs which tokens and signatures were refused, and how often: one line in its time. No user, no token, no address.
struct RefusalLog {
    private let failures: CounterTable
    private let logger: Logger
    private var told: [String: UInt64] = [:]
    private var toldAt: Instant?

    /// The shortest time between two lines: devices with expired tokens come every day.
    static let interval = Duration.seconds(60)

    /// - Parameter failures: counts refusals by their reason.
    init(_ failures: CounterTable, _ logger: Logger) {
        self.failures = failures
        self.logger = logger
    }

    /// Logs new refusals if the interval has passed since the last line.
    mutating func look(now: Instant = .read()) {
        if let toldAt, now.duration(since: toldAt) < Self.interval { return }
        let counts = HubMetrics.authFailureReasons.map { ($0, failures[$0].count) }
        let new = counts.map { ($0, $1 - (told[$0] ?? 0)) }.filter { $0.1 > 0 }.sorted { $0.1 > $1.1 }
        guard let most = new.first else { return }
        told = Dictionary(uniqueKeysWithValues: counts)
        toldAt = now
        var metadata: Logger.Metadata = ["reasons": "\(new.map { "\($0.0) \($0.1)" }.joined(separator: ", "))"]
        if let rejection = TokenRejection(rawValue: most.0) { metadata["meaning"] = "\(rejection.message)" }
        logger.notice("tokens or signatures were refused", metadata: metadata)
    }
}
