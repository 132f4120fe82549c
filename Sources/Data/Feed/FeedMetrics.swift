import Clock
import Metrics
import Reactor
import Synchronization

/// Metrics of the feed.
package final class FeedMetrics: MetricSource {
    /// 1 while the listening connection listens.
    let listening = Gauge()
    /// The full part of the server's notification queue, in millionths.
    let queueUsage = Gauge()
    let streams = Gauge()
    let status: Locked<FeedStatus> = Locked(.away)
    let reads = CounterTable("kind", ["positions", "tail", "replay", "check", "log", "bulk"])
    /// The one of `reads` that counts with each event.
    let tailReads: Counter
    let readSeconds = Histogram.times()
    let events = Counter()
    /// Streams found behind their position by the check.
    let gaps = Counter()
    /// Problems of published tables found by the last check.
    let publishedProblems = Gauge()
    /// Reads of the log, waiting or in flight.
    let pagesWaiting = Gauge()
    let revocations = Counter()
    /// When the listening connection last proved that it listens, in nanoseconds; 0: never.
    private let heard = Atomic<UInt64>(0)

    /// When the oldest writing transaction was first seen, in nanoseconds; 0: none.
    private let writing = Atomic<UInt64>(0)

    /// Metrics of a feed that has not started.
    package init() {
        tailReads = reads["tail"]
    }

    func heartbeat(at now: Instant) {
        heard.store(now.nanoseconds, ordering: .relaxed)
    }

    func writes(since: Instant?) {
        writing.store(since?.nanoseconds ?? 0, ordering: .relaxed)
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        let status = status.withLock { $0 }
        exposition.gauge(
            "feed_status", "1 for the feed's present status, 0 for the others.",
            [FeedStatus.away, .catchingUp, .live, .polling].map { ([.init("status", $0.label)], $0 == status ? 1 : 0) })
        exposition.gauge(
            "pg_listen_up", "1 while the hub receives PostgreSQL's notifications.", Double(listening.level))
        let last = heard.load(ordering: .relaxed)
        if last > 0 {
            let age = Instant.read().duration(since: Instant(nanoseconds: last))
            exposition.gauge(
                "pg_listen_heartbeat_seconds", "Time since the listening connection last showed that it works.",
                age / .seconds(1))
        }
        exposition.gauge(
            "pg_notify_queue_usage", "How full PostgreSQL's queue of notifications is, from 0 to 1.",
            Double(queueUsage.level) / 1e6)
        let first = writing.load(ordering: .relaxed)
        let writer = first > 0 ? Instant.read().duration(since: Instant(nanoseconds: first)) : .zero
        exposition.gauge(
            "pg_oldest_writer_seconds",
            "Time since the feed first saw the oldest open transaction that writes; 0 if it sees none.",
            max(.zero, writer) / .seconds(1))
        exposition.gauge("feed_streams", "Users' channels that the feed watches.", Double(streams.level))
        exposition.counter("feed_reads_total", "Reads of the event log, by kind.", reads)
        exposition.histogram("feed_read_seconds", "Time of one read of the event log.", readSeconds)
        exposition.counter(
            "position_check_behind_total",
            "Channels in which the position check found missed events; these were then delivered.", gaps.count)
        exposition.gauge(
            "published_problems", "Problems of published tables; the log names them.",
            Double(publishedProblems.level))
        exposition.gauge(
            "feed_log_reads_waiting", "Pages of the log that devices wait for.", Double(pagesWaiting.level))
        exposition.counter(
            "feed_revocations_total", "Revocations read; on each connect, all that are in force.", revocations.count)
        exposition.counter("feed_events_total", "Events handed to the hub's loops.", events.count)
    }
}

extension FeedStatus {
    fileprivate var label: String {
        switch self {
        case .away: "away"
        case .catchingUp: "catching_up"
        case .live: "live"
        case .polling: "polling"
        }
    }
}
