import Metrics

/// Metrics of webhooks.
package final class CourierMetrics: MetricSource {
    enum Drop: String, CaseIterable {
        /// Too many events or bytes wait.
        case full
        /// Its requests failed for `CourierLimits.retryFor`.
        case expired
        /// Its endpoint, or its app on all hubs, was removed from the configuration.
        case removed
        /// No endpoint of its app wants it.
        case unwanted
        case stopped
    }

    /// Waiting events, counted once per endpoint.
    let waiting = Gauge()
    let waitingBytes = Gauge()
    private let delivered = Counter()
    private let undone = Counter()
    private let dropped = CounterTable("reason", Drop.allCases.map(\.rawValue))
    private let requests = CounterTable("result", ["2xx"] + DeliveryFailure.allCases.map(\.rawValue))
    private let retries = Counter()
    private let requestSeconds = Histogram.times()
    private let seconds = Histogram(
        .nanoseconds,
        bounds: [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000]
            .map { $0 * 1_000_000 })

    /// Creates the metrics before the courier starts.
    package init() {}

    func wait(_ events: Int, bytes: Int) {
        waiting.add(events)
        waitingBytes.add(bytes)
    }

    func drop(_ events: Int, _ reason: Drop) {
        dropped[reason.rawValue].add(events)
    }

    func cancelled(_ events: Int) { undone.add(events) }

    /// Counts a delivered event; `time` is measured from its posting.
    func delivered(after time: Duration) {
        delivered.add()
        seconds.record(time)
    }

    func request(_ result: DeliveryResult, isRetry: Bool, took time: Duration) {
        switch result {
        case .delivered: requests["2xx"].add()
        case .failed(let reason): requests[reason.rawValue].add()
        }
        if isRetry { retries.add() }
        requestSeconds.record(time)
    }

    /// Counts of delivered and dropped events, for tests.
    var deliveredCount: UInt64 { delivered.count }
    var cancelledCount: UInt64 { undone.count }
    func droppedCount(_ reason: Drop) -> UInt64 { dropped[reason.rawValue].count }
    func requestCount(_ result: String) -> UInt64 { requests[result].count }
    var retryCount: UInt64 { retries.count }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.counter(
            "webhook_events_delivered_total", "Events that an endpoint has accepted.",
            delivered.count)
        exposition.counter(
            "webhook_events_dropped_total", "Events that an endpoint was not told, by the reason.", dropped)
        exposition.counter(
            "webhook_events_cancelled_total",
            "Events dropped because their reverse came while they waited; both are counted.",
            undone.count)
        exposition.gauge("webhook_events_waiting", "Events that wait for their endpoint.", Double(waiting.level))
        exposition.gauge(
            "webhook_bytes_waiting", "Bytes of the events that wait for their endpoint.", Double(waitingBytes.level))
        exposition.counter("webhook_requests_total", "Requests to endpoints, by result.", requests)
        exposition.counter("webhook_retries_total", "Requests to endpoints that repeat a failed one.", retries.count)
        exposition.histogram("webhook_request_seconds", "Time of one request to an endpoint.", requestSeconds)
        exposition.histogram("webhook_seconds", "From an event until its endpoint has accepted it.", seconds)
    }
}
