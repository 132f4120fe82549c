// Jobs: work that time brings: doses are missed, old events and keys are deleted.
//
// Lifecycle: `Jobs.start` makes a thread with one connection, and keeps it up until `stop`. Each hub runs all jobs. Each
// batch is one transaction, a call of `sync.job`, which does nothing while another hub runs the same job.
//
// Invariants:
// - Nothing is remembered between batches but when to look again, and how large a batch may be: what is to be done is
//   found by what the rows are. A hub that is killed loses nothing, and two hubs do nothing twice.
// - A batch waits for no row that somebody holds, and its commit comes within about 20 ms: as long may a device's action
//   wait for it. Between two batches is a pause of a quarter of that.
// - Batches do not NOTIFY. An announcement follows the commit of each batch that did something. The worst interleaving:
//   the hub dies between the two. Then nobody is woken, and the feeds' next poll finds the events
//   (`feed.pollInterval`), for they look for all that became visible.
// - Only kinds of errors are logged, and counts are all that metrics have.
//
// A late action that undoes a miss is the database's to judge (`care.rule_act`), not this target's.
// Depends on Postgres (libpq on the loop) and on `sync.job`, `sync.job_lag` and `sync.announce` of `sql/`.

import Logging
import Postgres
import Reactor

/// The running jobs, one per hub.
package final class Jobs: Sendable {
    private let thread: LoopThread
    /// The loop's handle for other threads.
    package var handle: LoopHandle { thread.handle }

    /// Starts the jobs' thread. The database need not be up.
    ///
    /// - Parameter did: told of each batch that changed something, on the jobs' thread.
    /// - Throws: `PostgresError` for an unreadable connection string, `ReactorError` without threads or descriptors left.
    package static func start(
        _ configuration: JobsConfiguration, logger: Logger, metrics: JobsMetrics = JobsMetrics(),
        postgres: PostgresMetrics = PostgresMetrics(), did: @escaping @Sendable (Job) -> Void = { _ in }
    ) throws -> Jobs {
        let parameters = try ConnectionParameters(
            configuration.connectionString,
            defaults: ConnectionParameters.keepalive + ConnectionParameters.primaryOnly)
        let meter = postgres.meter(.job)
        return Jobs(
            try LoopThread(
                name: "jobs",
                filling: { loop throws(ReactorError) in
                    try JobsLoop(loop, configuration, parameters, logger, metrics, meter, did)
                }))
    }

    private init(_ thread: LoopThread) {
        self.thread = thread
    }

    /// Closes the connection and ends the thread. A batch in flight is carried out, or not.
    package func stop() {
        thread.stopAndJoin()
    }
}
