import Logging
import Postgres
import Reactor

/// Decides whether notifications reach the hub, and how often to poll.
///
/// LISTEN may succeed and hear nothing: in another database, or through something that keeps notifications. So once both
/// connections are up, the reading connection sends the listening one a notification: the probe.
final class NotifyProbe {
    private let configuration: FeedConfiguration
    private let logger: Logger
    private let reader: Reader
    private let changed: () -> Void
    private var listener: Listener?
    private var poll: Alarm?
    private var probe: Alarm?
    /// Whether the probe was heard; nil while that is unknown.
    private var isProbeHeard: Bool?

    /// - Parameters:
    ///   - reader: sends the probe.
    ///   - woken: something was or may have been committed.
    ///   - published: a table was or may have been published.
    ///   - changed: `isLive` may have changed.
    init(
        _ loop: EventLoop, _ parameters: ConnectionParameters, _ configuration: FeedConfiguration, _ logger: Logger,
        _ metrics: FeedMetrics, _ meter: PostgresConnectionMetrics, _ reader: Reader, woken: @escaping () -> Void,
        published: @escaping () -> Void, changed: @escaping () -> Void
    ) throws(ReactorError) {
        self.configuration = configuration
        self.logger = logger
        self.reader = reader
        self.changed = changed
        listener = try Listener(
            loop, parameters, configuration, logger, metrics, meter, woken: woken, published: published,
            changed: { [weak self] in self?.listenerChanged() })
        poll = try Alarm(loop) { [weak self] in
            self?.schedulePoll()
            published()
            woken()
        }
        probe = try Alarm(loop) { [weak self] in self?.probeUnheard() }
        schedulePoll()
    }

    func start() {
        listener?.start()
    }

    /// Whether commits are heard of at once.
    var isLive: Bool { listener?.isListening == true && isProbeHeard != false }

    /// The reader is up.
    func readerConnected() {
        schedulePoll()
        sendProbe()
    }

    private func listenerChanged() {
        isProbeHeard = nil
        readerConnected()
        changed()
    }

    private func schedulePoll() {
        poll?.set(
            after: isLive
                ? configuration.pollInterval : min(configuration.pollInterval, configuration.pollIntervalUnheard))
    }

    private func sendProbe() {
        guard isProbeHeard == nil, let listener, listener.isListening, reader.isUp else { return }
        let token = String(UInt64.random(in: .min ... .max), radix: 16)
        listener.expect(token) { [weak self] in
            self?.probe?.unset()
            self?.isProbeHeard = true
            self?.changed()
        }
        reader.sendProbe(token)
        probe?.set(after: configuration.heartbeatTimeout)
    }

    private func probeUnheard() {
        guard isProbeHeard == nil, listener?.isListening == true, reader.isUp else { return }
        isProbeHeard = false
        logger.error(
            """
            PostgreSQL: the listening connection hears no notifications, so events come by polling; what stands between \
            the hub and PostgreSQL?
            """)
        schedulePoll()
        changed()
    }
}
