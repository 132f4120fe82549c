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
    /// Subscriptions by kind: to users' streams, and to ordinary channels that are public, presence channels, or signed or
    /// server-to-user.
    private let streams = Gauge()
    private let publicChannels = Gauge()
    private let privateChannels = Gauge()
    private let presenceChannels = Gauge()
    /// Users in presence channels.
    let members = Gauge()
    /// What cache channels keep, with what it costs to keep it.
    let cachedBytes = Gauge()
    let cacheMisses = Counter()
    /// Events that were published to ordinary channels by apps' backends, and by clients.
    let published = Counter()
    let clientEvents = Counter()
    /// Subscribes to streams that are not watched, refused since their user has too many.
    let refusedStreams = Counter()
    /// The ordinary channels that all homes hold.
    package let channels = ChannelCensus()
    let refusedClientEvents = CounterTable("reason", ["disabled", "kind", "outside", "overload", "rate", "size"])

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

    /// Clients that engines have stopped themselves, by the name of that limit.
    package func stopped(by limit: String) -> UInt64 { limit == "limits.streamsPerUser" ? refusedStreams.count : 0 }

    /// A client's event was dropped, for too many are on their way.
    package func droppedClientEvent() {
        refusedClientEvents["overload"].add()
    }

    /// A session of the app has come into a channel, or left one.
    func subscriptions(_ change: Int, _ channel: Channel, of app: App) {
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

    package func append(to exposition: inout Exposition) {
        exposition.gauge(
            "subscriptions", "Channels that connections are in, by kind: a user's stream, public, private or presence.",
            [
                ("stream", streams), ("public", publicChannels), ("private", privateChannels),
                ("presence", presenceChannels),
            ].map {
                ([.init("kind", $0)], Double($1.level))
            })
        exposition.gauge(
            "channels",
            "Ordinary channels that the hub holds: somebody is in, or something of them is kept or to be told.",
            Double(channels.count))
        exposition.gauge(
            "presence_members", "Users in presence channels, each once in a channel.", Double(members.level))
        exposition.gauge(
            "cached_bytes", "What cache channels keep, with what it costs to keep it.", Double(cachedBytes.level))
        exposition.counter(
            "cache_misses_total", "Subscribers of cache channels of which nothing was kept.", cacheMisses.count)
        exposition.counter(
            "channel_events_total", "Events to ordinary channels, by who sent them.",
            [([.init("from", "backend")], published.count), ([.init("from", "client")], clientEvents.count)])
        exposition.counter(
            "client_events_refused_total", "Client events not passed on, by the reason.", refusedClientEvents)
        exposition.counter(
            "resume_total", "Places named by clients, one for each channel, and what became of them.", resumes)
        exposition.histogram(
            "resume_replayed_events", "Events between the place that a client named and the present.", replayed)
        exposition.counter(
            "stream_resets_total", "Subscriptions told that their stream's past is lost: restore, failover, retention.",
            resets.count)
    }
}
