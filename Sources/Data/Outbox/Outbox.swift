// Outbox: pushes that wait in the database. A claim leases them to this hub; a settlement tells what became of them.
//
// Lifecycle: `Outbox.start` makes a thread with one connection, and keeps it up until `stop`. It claims each second, at
// once after `look`, and as long as there is more and room.
//
// Invariants:
// - No transaction is open while a push is on its way: a claim is one statement, and a settlement another.
// - What was claimed is settled, however long that takes: as long as settlements fail, at most `heldMax` of each platform
//   are claimed. If the hub is killed, leases end, and another claims these pushes again: each is sent at least once.
// - After an outage settlements go before claims, and no push is sent again that is known here to have been sent.
// - A row that somebody else holds holds up no other: its outcome waits, and is told again.
// - A provider that answers slowly holds up no other: each platform has room of its own.
// - Users take turns at a claim, and each has a share of what is held: however many pushes of one are due, those of another
//   are claimed by the next claim.
// - Texts, tokens and ids are never logged.
//
// Depends on Postgres (libpq on the loop), and on `sync.claim_pushes`, `sync.settle_pushes` and `sync.push_state` of `sql/`.

import Clock
import Logging
import Postgres
import Reactor

/// The settings of the outbox.
package struct OutboxConfiguration: Sendable {
    /// The hub's connection string; its role must be allowed to execute the hub functions.
    package var connectionString: String
    /// Whether texts name what they remind of.
    package var showsLabels = false
    /// How long connecting may take.
    package var connectTimeout = Duration.seconds(10)
    /// The time between two claims that find nothing.
    package var interval = Duration.seconds(1)

    /// The defaults, for the database of a libpq connection string.
    package init(connectionString: String) {
        self.connectionString = connectionString
    }
}

/// The outbox of pushes, one per hub. Any thread may call it; only `stop` blocks.
package final class Outbox: Sendable {
    private let thread: LoopThread
    private let inbox: Mailbox<OutboxLoop.Message>
    /// The loop's handle for other threads.
    package var handle: LoopHandle { thread.handle }

    /// Starts the thread. The database need not be up.
    ///
    /// - Parameter take: is given claimed pushes, on the outbox's thread. It must call `settle` for each of them later.
    /// - Throws: `PostgresError` for an unreadable connection string, `ReactorError` without threads or descriptors left.
    package static func start(
        _ configuration: OutboxConfiguration, logger: Logger, metrics: OutboxMetrics = OutboxMetrics(),
        postgres: PostgresMetrics = PostgresMetrics(), take: @escaping @Sendable ([DuePush]) -> Void
    ) throws -> Outbox {
        let parameters = try ConnectionParameters(
            configuration.connectionString,
            defaults: ConnectionParameters.keepalive + ConnectionParameters.primaryOnly)
        let meter = postgres.meter(.push)
        let handle = try LoopHandle()
        let inbox = Mailbox<OutboxLoop.Message>(handle)
        let thread = try LoopThread(
            name: "outbox", handle: handle,
            filling: { loop throws(ReactorError) in
                try OutboxLoop(loop, inbox, configuration, parameters, logger, metrics, meter, take)
            })
        return Outbox(thread, inbox)
    }

    private init(_ thread: LoopThread, _ inbox: Mailbox<OutboxLoop.Message>) {
        (self.thread, self.inbox) = (thread, inbox)
    }

    /// There may be new pushes: claims at once.
    package func look() {
        inbox.post(.look)
    }

    /// Tells what became of claimed pushes.
    package func settle(_ outcomes: [PushOutcome]) {
        if !outcomes.isEmpty { inbox.post(.settle(outcomes)) }
    }

    /// Claims nothing any more.
    package func stopClaiming() {
        inbox.post(.stopClaiming)
    }

    /// Settles what it was told of, for at most `patience`. Then it closes the connection and ends the thread.
    package func stop(within patience: Duration) {
        inbox.post(.stop(patience))
        thread.join()
    }
}
