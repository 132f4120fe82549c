/// The bounds of this target.
package enum StoreLimits {
    /// Queued actions unless configured otherwise; one more is answered `retry`.
    package static let waitingMax = 10_000
    /// Queued actions of one user unless configured otherwise.
    package static let waitingPerUserMax = 1_000
    /// Bytes of waiting actions unless configured otherwise, in the mailbox of the store's thread and again in its queue.
    package static let waitingBytesMax = 64 << 20
    /// When the queue is full, a user with nothing queued may still use a reserve of one quarter of both bounds.
    static let newcomersShare = 4
    /// Snapshot requests that may wait; one more is answered `unavailable`.
    static let snapshotsMax = 10_000
    /// Snapshot requests of one user that may wait.
    static let snapshotsPerUserMax = 32
    /// Snapshot requests in flight on one connection.
    static let snapshotDepth = 4
    /// Bytes of a snapshot, so that a slow client stays within its send queue.
    package static let snapshotBytesMax = 4 << 20
    /// Connections that read snapshots.
    package static let queryConnectionsMax = 16
    /// Connections that may be leased for exports.
    package static let exportConnectionsMax = 4
    /// The target size of one page of an export, small enough not to delay what is sent after it.
    static let exportPieceBytes = 32 << 10
    /// Rows of one page of an export.
    static let exportRowsMax = 1_000
    /// How long an export may run, since its snapshot holds back vacuum.
    static let exportTimeMax = Duration.seconds(900)
    /// Documents that may wait to be appended by one function, of all users and of one, without the batch in flight.
    static let appendsMax = 10_000
    static let appendsPerUserMax = 1_000
    /// Bytes of the documents that may wait for one function.
    static let appendBytesMax = 16 << 20
    /// How long documents of a user are refused who has as many in the database as the function keeps.
    static let fullUserPause = Duration.seconds(60)
    /// Documents in one batch.
    static let appendBatchMax = 200
    /// Actions in one transaction: what others wait for at most. `sync.apply_all` begins none after 50 ms.
    static let actionBatchMax = 32
    /// Bytes of their parameters.
    static let actionBatchBytesMax = 256 << 10
    /// While the pool is crowded, the store takes what has come once in this time, so that it leaves the processor to
    /// PostgreSQL. Little beside the tens of milliseconds for which each action waits then.
    static let crowdedRestMicroseconds: UInt32 = 2_000
    /// While the pool is crowded, the feed and the other hubs are told of commits no more often than this.
    static let crowdedTelling = Duration.milliseconds(10)
    /// Writing connections.
    package static let connectionsMax = 64
    /// Senders of each kind with a token bucket.
    package static let bucketsMax = 100_000
    /// A sender that is too fast waits until it has the tokens of this long.
    static let refillTime = Duration.milliseconds(250)
    /// Executions of one action that may lose a race before it is answered `retry`.
    static let racesMax = 3
    /// Failures of one action on a well server before a refusal is stored. The user is held after each.
    package static let failuresMax = 5
    /// The least time from the first of these failures to the last: somebody replacing a trigger is done by then.
    static let failuresLeast = Duration.seconds(3)
    /// That time if no action was applied meanwhile: all may hit one fault, and an operator needs time to repair it.
    static let failuresLeastOfAll = Duration.seconds(30)
    /// Failing actions remembered; beyond them failures are not counted.
    static let failingMax = 10_000
    /// How long a failing action is remembered: a device may take that long to send it again.
    static let failureLasts = Duration.seconds(3_600)
    /// Connections that may be lost under one action; after one more it is answered `retry`, since it may be the cause.
    static let lossesMax = 5
}
