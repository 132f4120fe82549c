/// The bounds of this target, in one place.
package enum StoreLimits {
    /// Actions that may wait for their turn unless configured otherwise; one more is answered `retry`.
    package static let waitingMax = 10_000
    /// Actions of one user that may wait for their turn unless configured otherwise.
    package static let waitingPerUserMax = 1_000
    /// Bytes of the actions that may wait unless configured otherwise: as many on their way to the store's thread, and
    /// as many in its queue.
    package static let waitingBytesMax = 64 << 20
    /// Users of whom nothing waits find room for one more in so many actions and bytes when the queue is full.
    static let newcomersShare = 4
    /// Actions sent in a row where old events wait to be deleted.
    static let actionsInARow = 100
    /// Between two batches of old events: actions go first.
    static let retainPause = Duration.milliseconds(50)
    /// How soon a deletion is asked for again where there was no connection.
    static let retainRetry = Duration.seconds(1)
    /// Questions for snapshots that may wait; one more is answered `unavailable`.
    static let snapshotsMax = 10_000
    /// Questions for snapshots of one user that may wait.
    static let snapshotsPerUserMax = 32
    /// Questions sent ahead on one connection.
    static let snapshotDepth = 4
    /// Bytes of a snapshot, so that a client that takes it slowly stays within its queue.
    package static let snapshotBytesMax = 4 << 20
    /// Connections that read snapshots.
    package static let queryConnectionsMax = 16
    /// Connections that are leased for exports.
    package static let exportConnectionsMax = 4
    /// Bytes that a page of an export is to have, so that it is no burden to who waits for it to be sent.
    static let exportPieceBytes = 32 << 10
    /// Rows of one page of an export.
    static let exportRowsMax = 1_000
    /// How long an export may be under way: its snapshot holds back vacuum.
    static let exportTimeMax = Duration.seconds(900)
    /// Documents that may wait to be appended, of all users and of one; those of the batch under way are not among them.
    static let appendsMax = 10_000
    static let appendsPerUserMax = 1_000
    /// Bytes of all of them.
    static let appendBytesMax = 16 << 20
    /// Documents that are appended at once.
    static let appendBatchMax = 200
    /// Connections that write.
    package static let connectionsMax = 64
    /// Senders of each kind whose rate is known.
    package static let bucketsMax = 100_000
    /// A sender that is too fast is told to wait for what comes in so long.
    static let refillTime = Duration.milliseconds(250)
    /// Executions of one action that lose a race before it is answered `retry`.
    static let racesMax = 3
    /// Executions that fail at one action, while the server is well, before a refusal is stored. After each the user is held.
    package static let failuresMax = 5
    /// The time from the first of them to the last, at least: who is just replacing a trigger has done it by then.
    static let failuresLeast = Duration.seconds(3)
    /// That time where no action was applied meanwhile: all may run into one fault, and an operator has so long to mend it.
    static let failuresLeastOfAll = Duration.seconds(30)
    /// Actions that are remembered to have failed; beyond them failures are not counted.
    static let failingMax = 10_000
    /// How long an action is remembered to have failed: devices may be that slow to come back with it.
    static let failureLasts = Duration.seconds(3_600)
    /// Connections that may be lost under one action; with one more it is answered `retry`: it may be what ends them.
    static let lossesMax = 5
    /// Different failures that the log tells of.
    static let complaintsMax = 100
}
