import Metrics
import Pusher

/// What the engines of all loops decide, counted.
package final class EngineMetrics: MetricSource {
    /// The reasons among the hub's `auth_failures_total` that are found here.
    package static let authFailureReasons = ["signin_signature", "channel_signature", "other_user", "revoked"]

    /// Credentials found bad, by the reason.
    let authFailures: CounterTable
    private let resumes = CounterTable(
        "result", ["recovered", "lost"], by: "reason", ["none"] + ResumeLoss.allCases.map(\.rawValue))
    private let replayed = Histogram.sizes()
    let resets = Counter()
    private let subscriptions: [Kind: Gauge]

    /// What kind of channel a subscription is to.
    enum Kind: String, CaseIterable {
        /// A user's stream.
        case stream
        case `public`
        /// Signed, or the server-to-user channel.
        case `private`
    }

    /// - Parameter authFailures: the hub's, whose reasons include those named here.
    package init(authFailures: CounterTable = CounterTable("reason", EngineMetrics.authFailureReasons)) {
        self.authFailures = authFailures
        subscriptions = Dictionary(uniqueKeysWithValues: Kind.allCases.map { ($0, Gauge()) })
    }

    /// A client's place was found, and so many events lie behind it.
    func recovered(_ count: Int64) {
        resumes["recovered", "none"].add()
        replayed.record(UInt64(clamping: count))
    }

    /// What lies behind a client's place cannot be had.
    func lost(_ loss: ResumeLoss) {
        resumes["lost", loss.rawValue].add()
    }

    /// A session has come into a channel, or left one.
    func subscriptions(_ change: Int, _ channel: Channel) {
        let kind: Kind = channel.isStream ? .stream : channel.name.kind == .public ? .public : .private
        subscriptions[kind]?.add(change)
    }

    package func append(to exposition: inout Exposition) {
        exposition.gauge(
            "subscriptions", "Channels that connections are in, by kind: a user's stream, public or private.",
            Kind.allCases.map { ([.init("kind", $0.rawValue)], Double(subscriptions[$0]?.level ?? 0)) })
        exposition.counter(
            "resume_total", "Places named by clients, one for each channel, and what became of them.", resumes)
        exposition.histogram(
            "resume_replayed_events", "Events between the place that a client named and the present.", replayed)
        exposition.counter(
            "stream_resets_total", "Subscriptions told that their stream's past is lost: restore, failover, retention.",
            resets.count)
    }
}
