import Metrics
import Reactor

/// Metrics of events on their way out, to subscribers.
struct DeliveryMetrics: Sendable {
    /// Sessions that one loop sent one event to.
    let fanout = Histogram.sizes()
    let topics = TopicCounters()
    let ofChannels = Counter()
    let latency = Histogram.times()
    /// How often a connection was too slow for one of its streams, and was fed by pages from then on.
    let pullModeEntries = Counter()

    func append(to exposition: inout Exposition) {
        exposition.counter(
            "events_delivered_total", "Events of users' channels queued to subscribers, by topic, without replays.",
            topics.series)
        exposition.counter(
            "channel_events_delivered_total", "Events of ordinary channels queued to subscribers.",
            ofChannels.count)
        exposition.histogram("fanout_size", "Subscribers to which one loop sent one event.", fanout)
        exposition.histogram(
            "event_latency_seconds",
            "From the start of an event's commit, by PostgreSQL's clock, until the loops have queued it.",
            latency, label: .init("from", "commit"))
        exposition.counter(
            "pull_mode_entries_total",
            "Times that a connection was too slow for a channel, and got it by pages of the log from then on.",
            pullModeEntries.count)
    }
}

/// Metrics of what the hub holds for connections.
struct HeldMetrics: Sendable {
    /// Bytes that a socket did not take at once.
    let queued = Histogram(.count, bounds: [1, 4, 16, 64, 256, 1_024, 4_096, 8_192].map { $0 << 10 })
    /// Bytes queued to all connections because their sockets did not take them; a frame for many counts for each.
    let queuedBytes = Gauge()
    let unfinishedBytes = Gauge()

    func append(to exposition: inout Exposition) {
        exposition.histogram(
            "send_queue_bytes", "Bytes left over after a write that the socket took only in part.", queued)
        exposition.gauge(
            "send_queues_bytes", "Bytes queued to all connections; an event for many counts for each.",
            Double(queuedBytes.level))
        exposition.gauge(
            "unfinished_bytes", "Bytes of messages and requests that have not come to their end.",
            Double(unfinishedBytes.level))
    }
}

/// Counters by topic, bounded. Only topics with events are in it, and only operators make topics, by publishing tables.
final class TopicCounters: Sendable {
    /// Topics counted separately; events of further ones count as `other`.
    static let topicsMax = 64

    private let counters = Locked<[String: Counter]>([:])
    private let other = Counter()

    subscript(topic: String) -> Counter {
        counters.withLock { counters in
            if let counter = counters[topic] { return counter }
            guard counters.count < Self.topicsMax else { return other }
            let counter = Counter()
            counters[topic] = counter
            return counter
        }
    }

    var series: [([Exposition.Label], UInt64)] {
        var series = counters.withLock { $0 }.sorted { $0.key < $1.key }.map {
            ([Exposition.Label("topic", $0)], $1.count)
        }
        if other.count > 0 { series.append(([.init("topic", CounterTable.other)], other.count)) }
        return series
    }
}
