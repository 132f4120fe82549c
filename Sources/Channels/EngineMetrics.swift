import Metrics
import Pusher

/// What the engines of all loops decide, counted.
package final class EngineMetrics: MetricSource {
    /// The reasons among the hub's `auth_failures_total` that are found here.
    package static let authFailureReasons = ["signin_signature", "channel_signature", "other_user", "revoked"]

    /// Credentials found bad, by the reason.
    let authFailures: CounterTable
    /// Of them, subscribes to another user's channel: what a client can most easily send many of.
    let otherUsers: Counter
    private let resumes = CounterTable(
        "result", ["recovered", "lost"], by: "reason", ["none"] + ResumeLoss.allCases.map(\.rawValue))
    private let replayed = Histogram.sizes()
    let resets = Counter()
    /// Subscriptions by kind: to users' streams, to public channels, and to others, signed or server-to-user.
    private let streams = Gauge()
    private let publicChannels = Gauge()
    private let privateChannels = Gauge()

    /// - Parameter authFailures: the hub's, whose reasons include those named here.
    package init(authFailures: CounterTable = CounterTable("reason", EngineMetrics.authFailureReasons)) {
        self.authFailures = authFailures
        otherUsers = authFailures["other_user"]
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
        switch channel.label {
        case .stream: streams.add(change)
        case .plain(let name): (name.kind == .public ? publicChannels : privateChannels).add(change)
        }
    }

    package func append(to exposition: inout Exposition) {
        exposition.gauge(
            "subscriptions", "Channels that connections are in, by kind: a user's stream, public or private.",
            [("stream", streams), ("public", publicChannels), ("private", privateChannels)].map {
                ([.init("kind", $0)], Double($1.level))
            })
        exposition.counter(
            "resume_total", "Places named by clients, one for each channel, and what became of them.", resumes)
        exposition.histogram(
            "resume_replayed_events", "Events between the place that a client named and the present.", replayed)
        exposition.counter(
            "stream_resets_total", "Subscriptions told that their stream's past is lost: restore, failover, retention.",
            resets.count)
    }
}
