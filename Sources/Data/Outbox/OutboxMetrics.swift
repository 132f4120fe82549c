import Metrics

/// Metrics of the outbox of pushes.
package final class OutboxMetrics: MetricSource {
    /// As the last look found them. The age is in milliseconds.
    private let (waiting, oldest, declined) = (Gauge(), Gauge(), Gauge())
    let held = Gauge()
    private let statements = CounterTable(
        "type", ["claim", "settle"], by: "result", ["done", "nothing", "locked", "failed"])

    /// Metrics of an outbox that has not started.
    package init() {}

    func found(waiting: Int64, oldestSeconds: Double, declined: Int64) {
        self.waiting.set(Int(waiting))
        oldest.set(Int(min(max(oldestSeconds, 0), 1e9) * 1_000))
        self.declined.set(Int(declined))
    }

    func ran(_ type: String, _ result: String) { statements[type, result].add() }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.gauge("pushes_waiting", "Pushes in the outbox that are to be sent.", Double(waiting.level))
        exposition.gauge(
            "push_oldest_seconds", "For how long the oldest of them has been due.", Double(oldest.level) / 1_000)
        exposition.gauge(
            "push_permissions_declined", "Devices whose users have declined notifications.", Double(declined.level))
        exposition.gauge("pushes_held", "Pushes that this hub has claimed and not settled.", Double(held.level))
        exposition.counter("push_batches_total", "Claims and settlements of pushes, by result.", statements)
    }
}
