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
    package let channels = ChannelCensus()
    let refusedClientEvents = CounterTable("reason", ["disabled", "kind", "outside", "overload", "rate", "size"])

    /// - Parameter authFailures: the hub's table; its reasons include `authFailureReasons`.
    package init(authFailures: CounterTable = CounterTable("reason", EngineMetrics.authFailureReasons)) {
        self.authFailures = authFailures
        otherUsers = authFailures["other_user"]
    }

    /// A client's position was found, `count` events ago.
    func recovered(_ count: Int64) {
        resumes["recovered", "none"].add()
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
            "resume_total", "Positions named by clients, one for each channel, and what became of them.", resumes)
        exposition.histogram(
            "resume_replayed_events", "Events between the position that a client named and the present.", replayed)
        exposition.counter(
            "stream_resets_total", "Subscriptions told that their stream's past is lost: restore, failover, retention.",
            resets.count)
    }
}
