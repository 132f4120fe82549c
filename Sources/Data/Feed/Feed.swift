// Feed: what PostgreSQL commits, handed to the hub in order, once, without a gap.
//
// Lifecycle: `Feed.start` makes a thread with four connections, one that listens, one that reads what is new, and two for those
// who are behind, one of which is lent for what is new and more than a page, and keeps them up until `stop`. Owning loops post
// `FeedRequest`s; `FeedSink` gets `FeedOutput`s.
// Invariants: those of `Tail`, which decides everything; the rest carries out.
// NOTIFY is only a wake-up: with all of them lost, the poll delivers.
// Depends on Postgres (libpq on the loop) and on the hub functions of `sql/`.

import Logging
import Metrics
import Postgres
import Reactor

/// A running feed. One for each hub.
package final class Feed: Sendable {
    /// Where owning loops post their requests.
    package let requests: Mailbox<FeedRequest>
    private let thread: LoopThread
    private let metrics: FeedMetrics
    /// What other threads may hold of the feed's loop.
    package var handle: LoopHandle { thread.handle }

    /// Starts the feed's thread. The database need not be there: the feed tries until it is.
    ///
    /// - Throws: `PostgresError` for a connection string that cannot be read, `ReactorError` where the system has no
    ///   thread or descriptor left.
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
                // Unsafe, for it is called for each stream that is asked about: returned below, the feed lives as long as the loop
                // runs, and the loop calls nothing afterwards.
                loop.attach(requests) { [unowned(unsafe) feed] in feed.received($0) }
                return feed
            })
        return Feed(requests, thread, metrics)
    }

    /// A feed whose events come from elsewhere, such as the load tester's: `thread` takes what is posted to `requests`.
    package init(_ requests: Mailbox<FeedRequest>, _ thread: LoopThread, _ metrics: FeedMetrics = FeedMetrics()) {
        self.requests = requests
        self.thread = thread
        self.metrics = metrics
    }

    /// Streams that were found behind their position, and healed, since the start. Should stay 0.
    package var gapCount: Int { Int(clamping: metrics.gaps.count) }

    /// Closes the connections and ends the thread. No output comes after it.
    package func stop() {
        thread.stopAndJoin()
    }
}
