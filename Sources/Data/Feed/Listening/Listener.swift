import Logging
import Metrics
import Postgres
import Reactor

/// The LISTEN connection. It runs no transaction: notifications would wait for its end, and the server's queue for us. It
/// has no backpressure: a full socket would hold back vacuum for the whole database.
///
/// A heartbeat finds a connection that a failover or firewall left open and deaf. Its loss costs latency, and no event.
final class Listener {
    private static let channel = "sync"
    /// The probe's channel, see `expect`; not `sync`, so that no other hub is woken.
    static let probeChannel = "sync_probe"
    /// What `sync.enroll` sends on `sync`.
    private static let topicsPayload = "topics"

    private let loop: EventLoop
    private let configuration: FeedConfiguration
    private let metrics: FeedMetrics
    private let woken: () -> Void
    private let published: () -> Void
    private let changed: () -> Void
    private var slot: ConnectionSlot?
    private var heartbeat: Alarm?
    private var probe: (token: String, heard: () -> Void)?
    /// Whether LISTEN is in effect.
    private(set) var isListening = false {
        didSet { metrics.listening.set(isListening ? 1 : 0) }
    }

    /// - Parameters:
    ///   - woken: something was committed, or may have been while nothing listened.
    ///   - published: a table was published.
    ///   - changed: `isListening` has changed.
    init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: FeedConfiguration, _ logger: Logger,
        _ metrics: FeedMetrics, _ meter: PostgresConnectionMetrics, woken: @escaping () -> Void,
        published: @escaping () -> Void, changed: @escaping () -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.metrics = metrics
        self.woken = woken
        self.published = published
        self.changed = changed
        slot = try ConnectionSlot(
            "the listening connection", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, logger: logger, meter: meter,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.opened() },
                notified: { [weak self] in self?.notified($0) },
                lost: { [weak self] in self?.lost() }))
        heartbeat = try Alarm(loop) { [weak self] in self?.beat() }
    }

    func start() {
        slot?.connect()
    }

    /// Calls `heard` once when `token` arrives on `probeChannel`.
    func expect(_ token: String, heard: @escaping () -> Void) {
        probe = (token, heard)
    }

    private func opened() {
        let timeout = configuration.statementTimeout
        slot?.need("SELECT set_config('idle_session_timeout', '0', false)", timeout: timeout)
        slot?.need("LISTEN \(Self.probeChannel)", timeout: timeout)
        slot?.need("LISTEN \(Self.channel)", timeout: timeout) { [weak self] _ in self?.listening() }
    }

    private func listening() {
        isListening = true
        metrics.heartbeat(at: loop.now)
        slot?.established()
        heartbeat?.set(after: configuration.heartbeatInterval)
        // Commits before LISTEN took effect notified nobody, so read now; otherwise they would wait for the poll.
        woken()
        changed()
    }

    private func notified(_ notification: Connection.Notification) {
        if notification.channel == Self.channel {
            woken()
            if notification.payload == Self.topicsPayload { published() }
        } else if let probe, notification.channel == Self.probeChannel,
            notification.payload.utf8.prefix(FeedLimits.probeBytes + 1).elementsEqual(probe.token.utf8)
        {
            self.probe = nil
            probe.heard()
        }
    }

    private func beat() {
        guard isListening else { return }
        let question = "SELECT pg_listening_channels(), pg_notification_queue_usage()"
        slot?.need(question, timeout: configuration.heartbeatTimeout) { [weak self] rows in
            guard let self else { return }
            guard (0..<rows.count).contains(where: { rows.string($0, 0) == Self.channel }) else {
                slot?.drop(
                    PostgresError(
                        .unexpectedResult, "the server does not know that we listen: its session is not the hub's alone"
                    ))
                return
            }
            metrics.heartbeat(at: loop.now)
            metrics.queueUsage.set(Self.millionths(rows.string(0, 1)))
            heartbeat?.set(after: configuration.heartbeatInterval)
        }
    }

    private static func millionths(_ usage: String?) -> Int {
        guard let usage = usage.flatMap({ Double($0) }), (0...1).contains(usage) else { return 0 }
        return Int(usage * 1e6)
    }

    private func lost() {
        heartbeat?.unset()
        guard isListening else { return }
        isListening = false
        changed()
    }
}
