import Metrics
import Pusher

/// Counts what the engines of all loops decide.
package final class EngineMetrics: MetricSource {
    /// The reasons of the hub's `auth_failures_total` that the engine finds.
    package static let authFailureReasons = ["signin_signature", "channel_signature", "other_user", "revoked"]

    let authFailures: CounterTable
    /// Subscribes to another user's channel, one of those reasons. Clients can send many of these most easily.
    let otherUsers: Counter
    private let resumes = CounterTable(
        "result", ["recovered", "lost"], by: "reason", ["none"] + ResumeLoss.allCases.map(\.rawValue))
    /// That of `recovered`, kept because every client of a storm adds to it.
    private let recoveries: Counter
    private let replayed = Histogram.sizes()
    let resets = Counter()
    /// Subscriptions by kind: users' streams, public, presence, and private channels (signed or server-to-user).
    private let streams = Gauge()
    private let publicChannels = Gauge()
    private let privateChannels = Gauge()
    private let presenceChannels = Gauge()
    let members = Gauge()
    /// Bytes kept by cache channels, including what keeping them costs.
    let cachedBytes = Gauge()
    let cacheMisses = Counter()
    /// Events published to ordinary channels, by apps' backends and by clients.
    let published = Counter()
    let clientEvents = Counter()
    /// Subscribes to unpublished streams that were refused because their user has too many.
    let refusedStreams = Counter()
    /// The ordinary channels of all shards.
    package let channels = ChannelQuota()
    /// Messages of other processes that were dropped.
    package let sharedProblems = CounterTable("reason", SharedProblem.allCases.map(\.rawValue))
    let refusedClientEvents = CounterTable("reason", ["disabled", "kind", "outside", "overload", "rate", "size"])

    /// - Parameter authFailures: the hub's table; its reasons include `authFailureReasons`.
    package init(authFailures: CounterTable = CounterTable("reason", EngineMetrics.authFailureReasons)) {
        self.authFailures = authFailures
        otherUsers = authFailures["other_user"]
        recoveries = resumes["recovered", "none"]
    }

    /// A client's position was found, `count` events ago.
    func recovered(_ count: Int64) {
        recoveries.add()
        replayed.record(UInt64(clamping: count))
    }

    func lost(_ loss: ResumeLoss) {
        resumes["lost", loss.rawValue].add()
    }

    /// Clients that engines refused themselves, by the name of the limit.
    package func stopped(by limit: String) -> UInt64 { limit == "limits.streamsPerUser" ? refusedStreams.count : 0 }

    /// A client's event was dropped because too many are in flight.
    package func droppedClientEvent() {
        refusedClientEvents["overload"].add()
    }

    /// A session of the app entered a channel, or left one.
    func subscriptions(_ change: Int, _ channel: LocalChannel, of app: App) {
        app.counts.subscriptions.add(change)
        switch channel.label {
        case .user, .privateUser: streams.add(change)
        case .plain(let name):
            switch name.kind {
            case .public, .cache: publicChannels.add(change)
            case .presence, .presenceCache: presenceChannels.add(change)
            default: privateChannels.add(change)
            }
        }
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.gauge(
            "subscriptions", "Subscriptions of connections, by the channel's kind; a stream is a user's channel.",
            [
                ("stream", streams), ("public", publicChannels), ("private", privateChannels),
                ("presence", presenceChannels),
            ].map {
                ([.init("kind", $0)], Double($1.level))
            })
        exposition.gauge(
            "channels",
            "Ordinary channels that the hub holds.",
            Double(channels.count))
        exposition.gauge(
            "presence_members", "Users in presence channels, each counted once for a channel.", Double(members.level))
        exposition.gauge(
            "cached_bytes", "Bytes that cache channels keep, with their overhead.", Double(cachedBytes.level))
        exposition.counter(
            "cache_misses_total", "Subscribers of cache channels that had nothing for them.", cacheMisses.count)
        exposition.counter(
            "channel_events_total", "Events sent to ordinary channels, by sender.",
            [([.init("from", "backend")], published.count), ([.init("from", "client")], clientEvents.count)])
        exposition.counter(
            "client_events_refused_total", "Client events refused, by the reason.", refusedClientEvents)
        exposition.counter(
            "resume_total", "Positions sent by clients, one for each channel, by result.", resumes)
        exposition.histogram(
            "resume_replayed_events", "Events that a client had missed.", replayed)
        exposition.counter(
            "stream_resets_total", "Subscriptions that were told stream_reset without asking.",
            resets.count)
    }
}
