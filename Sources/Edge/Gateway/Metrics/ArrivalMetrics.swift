import Metrics

/// Metrics of connections on their way in, from the accept to the upgrade.
struct ArrivalMetrics: Sendable {
    let accepted = Counter()
    let refusals = CounterTable("reason", AdmissionControl.Refusal.allCases.map(\.rawValue))
    /// Connections that waited for their address's turn.
    let delayed = Counter()
    /// Refused connections that got no answer.
    let shut = Counter()
    /// Times that accepting had to rest.
    let exhaustions = Counter()
    let handshakes = Histogram.times()

    func append(to exposition: inout Exposition) {
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
            "accept_pauses_total", "Times that accepting paused for want of descriptors or memory.", exhaustions.count)
        exposition.histogram(
            "handshake_seconds", "From a connection's accept to its upgrade to a WebSocket.", handshakes)
    }
}

/// Metrics of connections that are closed because they must go elsewhere.
struct DrainMetrics: Sendable {
    /// 1 while a drain goes on.
    let underWay = Gauge()
    let closed = Counter()

    func append(to exposition: inout Exposition) {
        exposition.gauge(
            "draining", "1 while a drain closes connections, which must go to another hub.", Double(underWay.level))
        exposition.counter("drain_closings_total", "Connections closed by drains.", closed.count)
    }
}
