// Feed: hands PostgreSQL's commits to the hub in order, once, without a gap.
//
// Lifecycle: `Feed.start` makes a thread with four connections and keeps them up until `stop`: one listens, one reads the
// tail, two catch up; one of the two is lent to read more than a page of news. Owning loops post `FeedRequest`s; `FeedSink`
// gets `FeedOutput`s.
// Invariants: those of `Tail`, which decides everything; the other types carry it out.
// NOTIFY is only a wake-up: if every notification is lost, the poll delivers.
// Depends on Postgres (libpq on the loop) and on the hub functions of `sql/`.

import Logging
import Metrics
import Postgres
import Reactor

/// A running feed, one per hub.
package final class Feed: Sendable {
    /// Where owning loops post their requests.
    package let requests: Mailbox<FeedRequest>
    private let thread: LoopThread
    private let metrics: FeedMetrics
    /// The loop's handle for other threads.
    package var handle: LoopHandle { thread.handle }

    /// Starts the feed's thread. The database need not be up: the feed retries until it is.
    ///
    /// - Throws: `PostgresError` for an unreadable connection string, `ReactorError` without threads or descriptors left.
    package static func start(
        _ configuration: FeedConfiguration, sink: FeedSink, logger: Logger, metrics: FeedMetrics = FeedMetrics(),
        postgres: PostgresMetrics = PostgresMetrics()
    ) throws -> Feed {
        let defaults = ConnectionParameters.keepalive + ConnectionParameters.primaryOnly
        let reading = try ConnectionParameters(configuration.connectionString, defaults: defaults)
        let listening = try ConnectionParameters(
            configuration.notifyConnectionString ?? configuration.connectionString, defaults: defaults)
        let handle = try LoopHandle()
        let requests = Mailbox<FeedRequest>(handle)
        let thread = try LoopThread(
            name: "feed", handle: handle,
            filling: { loop throws(ReactorError) in
                let feed = try FeedLoop(
                    loop, configuration, reading: reading, listening: listening, sink, logger, metrics, postgres)
                // Unsafe for speed, since it is called for each requested stream. The feed is returned below and lives as
                // long as the loop runs; the loop calls nothing afterwards.
                loop.attach(requests) { [unowned(unsafe) feed] in feed.received($0) }
                return feed
            })
        return Feed(requests, thread, metrics)
    }

    /// A feed with another source of events, such as the load tester: `thread` handles what is posted to `requests`.
    package init(_ requests: Mailbox<FeedRequest>, _ thread: LoopThread, _ metrics: FeedMetrics = FeedMetrics()) {
        self.requests = requests
        self.thread = thread
        self.metrics = metrics
    }

    /// Streams found behind their position, and healed, since the start. Should stay 0.
    package var gapCount: Int { Int(clamping: metrics.gaps.count) }

    /// Closes the connections and ends the thread. No output follows.
    package func stop() {
        thread.stopAndJoin()
    }
}
