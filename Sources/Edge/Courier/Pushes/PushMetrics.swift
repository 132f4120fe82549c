import Clock
import Metrics
import Outbox

/// Metrics of pushes.
package final class PushMetrics: MetricSource {
    /// How an attempt to deliver a push ended, as a label.
    enum Delivery: String, CaseIterable {
        case sent, retry, dead, dropped, expired
    }

    static let noCredential = "oauth"
    /// No settings name a provider for the device's platform.
    static let noProvider = "no_provider"
    /// No request can be made of it: its token is none.
    static let noRequest = "no_request"
    /// The provider says that a credential has expired which is new.
    static let renewedTwice = "credential"

    private let deliveries = CounterTable(
        "platform", PushPlatform.allCases.map(\.rawValue), by: "result", Delivery.allCases.map(\.rawValue))
    private let failures = CounterTable(
        "reason",
        DeliveryFailure.allCases.map(\.rawValue) + [noCredential, noProvider, noRequest, renewedTwice]
            + APNs.Reason.allCases.map(\.rawValue) + FCM.Code.allCases.map(\.rawValue))
    private let heldUp = CounterTable("platform", PushPlatform.allCases.map(\.rawValue))
    private let accessTokens = Counter()
    private let requestSeconds = Histogram.times()
    private let seconds = Histogram(
        .nanoseconds,
        bounds: [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000]
            .map { $0 * 1_000_000 })

    /// Creates the metrics before any push is sent.
    package init() {}

    func ended(_ platform: PushPlatform?, _ delivery: Delivery) {
        deliveries[platform?.rawValue ?? CounterTable.other, delivery.rawValue].add()
    }

    func failed(_ reason: String) { failures[reason].add() }

    func heldUp(_ platform: PushPlatform) { heldUp[platform.rawValue].add() }

    func accessTokenCame() { accessTokens.add() }

    func request(took time: Duration) { requestSeconds.record(time) }

    func accepted(after time: Duration) { seconds.record(time) }

    /// Counts, for tests.
    func count(_ platform: PushPlatform, _ delivery: Delivery) -> UInt64 {
        deliveries[platform.rawValue, delivery.rawValue].count
    }

    func heldUpCount(_ platform: PushPlatform) -> UInt64 { heldUp[platform.rawValue].count }

    func failureCount(_ reason: String) -> UInt64 { failures[reason].count }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.counter("push_deliveries_total", "Attempts to deliver a push, by platform and result.", deliveries)
        exposition.counter("push_failures_total", "Attempts that failed, by the reason.", failures)
        exposition.counter("push_held_up_total", "Pushes that waited for room while others' requests took it.", heldUp)
        exposition.counter("push_access_tokens_total", "Access tokens that were fetched for FCM.", accessTokens.count)
        exposition.histogram("push_request_seconds", "Time of one request to a provider.", requestSeconds)
        exposition.histogram("push_seconds", "From a reminder's start until a provider has accepted it.", seconds)
    }
}
