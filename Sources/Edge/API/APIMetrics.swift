import Metrics

/// Metrics of Pusher's HTTP API, and of exports and appends.
package final class APIMetrics: MetricSource {
    enum Refusal: String, CaseIterable {
        case unknownApp = "unknown_app", disabled, signature, timestamp, body = "body_md5", replay, rate
        case size, invalid, overload, key = "idempotency_key"
    }

    private static let classes = ["2xx", "4xx", "5xx"]

    private let calls = CounterTable("route", PusherPath.Route.allCases.map(\.rawValue), by: "status", classes)
    /// The `2xx` counters of `calls`, the ones used most.
    private let done: [PusherPath.Route: Counter]
    private let refusals = CounterTable("reason", Refusal.allCases.map(\.rawValue))
    /// Published events, counted once per channel.
    let published = Counter()
    /// Calls answered with the kept answer of an earlier call.
    let repeats = Counter()

    /// Product routes: exports requested, how begun exports ended, and objects to append.
    let exports = CounterTable("result", ["begun", "missing", "refused", "unavailable"])
    let exportEnds = CounterTable("result", ["whole", "broken"])
    let appended = CounterTable("result", ["taken", "refused"])

    /// All at zero.
    package init() {
        let calls = calls
        done = Dictionary(
            uniqueKeysWithValues: PusherPath.Route.allCases.map { ($0, calls[$0.rawValue, "2xx"]) })
    }

    func answered(_ route: PusherPath.Route, _ status: Int) {
        switch status {
        case 200..<300: done[route]?.add()
        case 500...: calls[route.rawValue, "5xx"].add()
        default: calls[route.rawValue, "4xx"].add()
        }
    }

    func refused(_ refusal: Refusal) {
        refusals[refusal.rawValue].add()
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.counter("api_requests_total", "Calls of Pusher's HTTP API, by route and status.", calls)
        exposition.counter(
            "api_refusals_total", "Calls of Pusher's HTTP API that were refused, by the reason.", refusals)
        exposition.counter(
            "published_events_total", "Events published by HTTP, counted once for each channel.", published.count)
        exposition.counter(
            "api_repeats_total", "Publishes that got the kept answer of their Idempotency-Key.",
            repeats.count)
        exposition.counter("exports_total", "Exports asked for, by result.", exports)
        exposition.counter(
            "export_ends_total", "Exports that were sent whole, or failed midway.", exportEnds)
        exposition.counter(
            "appended_objects_total", "Objects that clients appended, or that were refused.",
            appended)
    }
}
