import Channels
import Metrics
import Reactor

/// Metrics of connections and their traffic, on all loops.
package final class GatewayMetrics: MetricSource {
    let engine: EngineMetrics
    /// Metrics of TLS handshakes and certificates.
    package let tls = TLSMetrics()
    let connections = Gauge()
    let webSockets = Gauge()
    let eventStreams = Gauge()
    /// 1 while connections are closed because they must go elsewhere.
    let draining = Gauge()
    let drained = Counter()
    let accepted = Counter()
    private let refusals = CounterTable("reason", AdmissionControl.Refusal.allCases.map(\.rawValue))
    private let limits = CounterTable("limit", ReachedLimit.allCases.map(\.rawValue))
    /// Connections that waited for their address's turn.
    let delayed = Counter()
    /// Refused connections that got no answer.
    let shut = Counter()
    /// Times that accepting had to rest.
    let exhaustions = Counter()
    /// By the code sent or received first; 1006: no close frame at all (RFC 6455 §7.1.5).
    private let disconnects = CounterTable(
        "code",
        ["1000", "1001", "1002", "1003", "1005", "1006", "1007", "1008", "1009", "1011"]
            + ["4001", "4003", "4004", "4006", "4007", "4009", "4100", "4109", "4110", "4200", "4201"])
    let handshakes = Histogram.times()
    private let responses = CounterTable(
        "status",
        [
            "200", "202", "204", "304", "400", "401", "403", "404", "405", "408", "409", "413", "414", "415", "417",
            "422", "426", "429", "431", "500", "501", "503", "505",
        ])
    private let done: Counter
    let messages = Counter()
    let compression = CompressionMetrics()
    /// Sessions that one loop sent one event to.
    let fanout = Histogram.sizes()
    let deliveries = TopicCounters()
    let channelDeliveries = Counter()
    let latency = Histogram.times()
    /// Bytes that a socket did not take at once.
    let queued = Histogram(.count, bounds: [1, 4, 16, 64, 256, 1_024, 4_096, 8_192].map { $0 << 10 })
    /// Bytes queued to all connections because their sockets did not take them; a frame for many counts for each.
    let queuedBytes = Gauge()
    let unfinishedBytes = Gauge()
    /// Connections closed for what they, or all together, made the hub hold.
    let overloads = CounterTable("reason", Overload.allCases.map(\.rawValue))
    private let notes = LimitNotes()
    /// How often a connection was too slow for one of its streams, and was fed by pages from then on.
    let pullModeEntries = Counter()
    private let apps = Locked<[App]>([])
    /// The feed's outputs that loops have still to handle.
    let backlog = EventBacklog()
    /// Ordinary channels' events that loops have still to handle.
    let publishes = PublishBacklog()

    /// - Parameter engine: the counts of all loops' engines.
    package init(engine: EngineMetrics = EngineMetrics()) {
        self.engine = engine
        done = responses["200"]
    }

    func serves(_ table: AppTable) {
        engine.channels.serves(table.apps.count)
        apps.withLock { $0 = table.apps }
    }

    /// A WebSocket ends with that code, ours or the peer's.
    func disconnected(_ code: UInt16) {
        disconnects[String(code)].add()
    }

    func refused(_ refusal: AdmissionControl.Refusal, _ address: PeerAddress) {
        refusals[refusal.rawValue].add()
        notes.add(.refused, refusal.limit, address)
    }

    func reached(_ limit: ReachedLimit, _ address: PeerAddress) {
        limits[limit.rawValue].add()
        // Pipelined requests only wait; their client is not stopped.
        guard limit != .pipelining else { return }
        notes.add(.stopped, limit.rawValue, isRoutine: limit.isRoutine, address)
    }

    /// A connection is closed for what the hub holds for it.
    func overloaded(_ overload: Overload, _ address: PeerAddress) {
        overloads[overload.rawValue].add()
        notes.add(.overload, overload.limit, address)
    }

    /// Returns and clears the clients that limits have stopped, by limit.
    package func takeLimitNotes() -> [LimitNote] { notes.take() }

    func answered(_ status: Int) {
        if status == 200 { done.add() } else { responses[String(status)].add() }
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        let (all, open) = (connections.level, webSockets.level)
        exposition.gauge(
            "connections", "Open connections, by kind; those of HTTP may still become WebSockets.",
            [([.init("kind", "websocket")], Double(open)), ([.init("kind", "http")], Double(max(0, all - open)))])
        exposition.gauge(
            "event_streams", "Open event streams; they count as connections of HTTP.", Double(eventStreams.level))
        exposition.counter("connections_total", "Connections accepted.", accepted.count)
        exposition.counter(
            "connections_refused_total", "Connections refused for a limit of the hub or of their address.", refusals)
        exposition.counter(
            "connections_delayed_total", "Connections that waited for their turn, since their address connects often.",
            delayed.count)
        exposition.counter(
            "connections_shut_total",
            "Refused connections that got no answer, because too many were being answered already.",
            shut.count)
        exposition.counter(
            "limits_reached_total",
            "Clients stopped by a limit, except refused connections.",
            limits.series.map { ([.init("limit", $0.value)], $0.count + engine.stopped(by: $0.value)) })
        exposition.counter(
            "accept_pauses_total", "Times that accepting paused for want of descriptors or memory.", exhaustions.count)
        exposition.counter(
            "disconnects_total", "WebSockets that ended, by close code; 1006 means that there was none.", disconnects)
        exposition.gauge(
            "draining", "1 while a drain closes connections, which must go to another hub.", Double(draining.level))
        exposition.counter("drain_closings_total", "Connections closed by drains.", drained.count)
        exposition.histogram(
            "handshake_seconds", "From a connection's accept to its upgrade to a WebSocket.", handshakes)
        exposition.counter("http_responses_total", "HTTP requests answered, without upgrades.", responses)
        exposition.counter("messages_received_total", "WebSocket messages of clients.", messages.count)
        exposition.counter(
            "events_delivered_total", "Events of users' channels queued to subscribers, by topic, without replays.",
            deliveries.series)
        exposition.counter(
            "channel_events_delivered_total", "Events of ordinary channels queued to subscribers.",
            channelDeliveries.count)
        exposition.histogram("fanout_size", "Subscribers to which one loop sent one event.", fanout)
        exposition.histogram(
            "event_latency_seconds",
            "From the start of an event's commit, by PostgreSQL's clock, until the loops have queued it.",
            latency, label: .init("from", "commit"))
        exposition.histogram(
            "send_queue_bytes", "Bytes left over after a write that the socket took only in part.", queued)
        exposition.gauge(
            "send_queues_bytes", "Bytes queued to all connections; an event for many counts for each.",
            Double(queuedBytes.level))
        exposition.gauge(
            "unfinished_bytes", "Bytes of messages and requests that have not come to their end.",
            Double(unfinishedBytes.level))
        exposition.counter(
            "overload_closings_total",
            "Connections closed for what the hub held for them, by the limit that was reached.",
            overloads)
        exposition.counter(
            "pull_mode_entries_total",
            "Times that a connection was too slow for a channel, and got it by pages of the log from then on.",
            pullModeEntries.count)
        exposition.gauge(
            "outbox_lag_events", "Events read from the log that wait for the loops.", Double(backlog.count))
        exposition.gauge(
            "channel_lag_events",
            "Events of ordinary channels on their way between loops, one for each event and loop.",
            Double(publishes.count))
        tls.append(to: &exposition)
        compression.append(to: &exposition)
        engine.append(to: &exposition)
        AppCounts.append(apps.withLock { $0 }, to: &exposition)
    }
}

/// Counters by topic, bounded. Only topics with events are in it, and only operators make topics, by publishing tables.
final class TopicCounters: Sendable {
    /// Topics counted separately; events of further ones count as `other`.
    static let topicsMax = 64

    private let counters = Locked<[String: Counter]>([:])
    private let other = Counter()

    subscript(topic: String) -> Counter {
        counters.withLock { counters in
            if let counter = counters[topic] { return counter }
            guard counters.count < Self.topicsMax else { return other }
            let counter = Counter()
            counters[topic] = counter
            return counter
        }
    }

    var series: [([Exposition.Label], UInt64)] {
        var series = counters.withLock { $0 }.sorted { $0.key < $1.key }.map {
            ([Exposition.Label("topic", $0)], $1.count)
        }
        if other.count > 0 { series.append(([.init("topic", CounterTable.other)], other.count)) }
        return series
    }
}
