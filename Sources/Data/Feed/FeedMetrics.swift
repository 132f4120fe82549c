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
    package init() {}

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
            "feed_status", "1 for what the feed does: away, catching_up, live or polling.",
            [FeedStatus.away, .catchingUp, .live, .polling].map { ([.init("status", $0.label)], $0 == status ? 1 : 0) })
        exposition.gauge("pg_listen_up", "1 while the hub hears PostgreSQL's notifications.", Double(listening.level))
        let last = heard.load(ordering: .relaxed)
        if last > 0 {
            let age = Instant.read().duration(since: Instant(nanoseconds: last))
            exposition.gauge(
                "pg_listen_heartbeat_seconds", "Since the listening connection last showed that it listens.",
                age / .seconds(1))
        }
        exposition.gauge(
            "pg_notify_queue_usage", "How full PostgreSQL's queue of notifications is, from 0 to 1.",
            Double(queueUsage.level) / 1e6)
        let first = writing.load(ordering: .relaxed)
        let writer = first > 0 ? Instant.read().duration(since: Instant(nanoseconds: first)) : .zero
        exposition.gauge(
            "pg_oldest_writer_seconds",
            "Since the feed first saw the oldest transaction that writes: when a later one had ended; 0 where it sees none.",
            max(.zero, writer) / .seconds(1))
        exposition.gauge("feed_streams", "Streams that the feed watches.", Double(streams.level))
        exposition.counter("feed_reads_total", "Reads of the outbox.", reads)
        exposition.histogram("feed_read_seconds", "From sending a read of the outbox to its answer.", readSeconds)
        exposition.counter(
            "position_check_behind_total",
            "Streams that the position check found behind, and healed: events that the tail had missed.", gaps.count)
        exposition.gauge(
            "published_problems", "What keeps published tables from telling all their changes; the log names them.",
            Double(publishedProblems.level))
        exposition.gauge(
            "feed_log_reads_waiting", "Pages of the log that loops wait for.", Double(pagesWaiting.level))
        exposition.counter(
            "feed_revocations_total", "Revocations read, all that stand on each connect.", revocations.count)
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
