import HubEngine
import Metrics
import Reactor

/// Metrics of connections and their traffic, on all loops.
package final class GatewayMetrics: MetricSource {
    /// Those of all loops' engines.
    package let engine: EngineMetrics
    /// Metrics of TLS handshakes and certificates.
    package let tls = TLSMetrics()
    let arrivals = ArrivalMetrics()
    let connections = Gauge()
    let webSockets = Gauge()
    let eventStreams = Gauge()
    let drains = DrainMetrics()
    private let limits = CounterTable("limit", ReachedLimit.allCases.map(\.rawValue))
    /// By the code sent or received first; 1006: no close frame at all (RFC 6455 §7.1.5).
    private let disconnects = CounterTable(
        "code",
        ["1000", "1001", "1002", "1003", "1005", "1006", "1007", "1008", "1009", "1011"]
            + ["4001", "4003", "4004", "4006", "4007", "4009", "4100", "4109", "4110", "4200", "4201"])
    private let responses = CounterTable(
        "status",
        [
            "200", "202", "204", "304", "400", "401", "403", "404", "405", "408", "409", "413", "414", "415", "417",
            "422", "426", "429", "431", "500", "501", "503", "505",
        ])
    private let done: Counter
    let messages = Counter()
    let compression = CompressionMetrics()
    let deliveries = DeliveryMetrics()
    let held = HeldMetrics()
    /// Connections closed for what they, or all together, made the hub hold.
    let overloads = CounterTable("reason", Overload.allCases.map(\.rawValue))
    private let notes = LimitNotes()
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
        arrivals.refusals[refusal.rawValue].add()
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
        arrivals.append(to: &exposition)
        exposition.counter(
            "limits_reached_total",
            "Clients stopped by a limit, except refused connections.",
            limits.series.map { ([.init("limit", $0.value)], $0.count + engine.stopped(by: $0.value)) })
        exposition.counter(
            "disconnects_total", "WebSockets that ended, by close code; 1006 means that there was none.", disconnects)
        drains.append(to: &exposition)
        exposition.counter("http_responses_total", "HTTP requests answered, without upgrades.", responses)
        exposition.counter("messages_received_total", "WebSocket messages of clients.", messages.count)
        deliveries.append(to: &exposition)
        held.append(to: &exposition)
        exposition.counter(
            "overload_closings_total",
            "Connections closed for what the hub held for them, by the limit that was reached.",
            overloads)
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
