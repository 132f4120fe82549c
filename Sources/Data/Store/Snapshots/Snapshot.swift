import Postgres

/// What a device may fetch when events cannot tell it everything.
package enum SnapshotSubject: Sendable, Equatable {
    /// The doses of a day, `YYYY-MM-DD` and in the calendar; of today in the user's zone where none is named.
    case day(String?)
    /// The summaries of the days of a month, by its first day.
    case month(firstDay: String)
    /// One dose with its notes, by its id.
    case occurrence(String)
    /// The reminder rules.
    case reminders
}

/// A body and where the user's stream stood when it was read, both of one database snapshot: all events above the offset
/// follow it.
package struct Snapshot: Sendable, Equatable {
    /// The stream's epoch: letters, digits and dots.
    package let epoch: String
    package let offset: Int64
    /// JSON text.
    package let body: [UInt8]

    package init(epoch: String, offset: Int64, body: [UInt8]) {
        self.epoch = epoch
        self.offset = offset
        self.body = body
    }
}

/// What comes of a question for a snapshot.
package enum SnapshotAnswer: Sendable, Equatable {
    case found(Snapshot)
    /// The user has no such thing.
    case missing
    /// It has more than `StoreLimits.snapshotBytesMax`.
    case tooLarge
    /// Too many wait, or the database cannot be asked at the moment: again after that time.
    case unavailable(after: Duration)
}

/// A question on its way to the database.
package struct SnapshotRequest: Sendable {
    /// Who asks, as the hub has verified, and about whom.
    package let user: String
    package let subject: SnapshotSubject
    /// Called exactly once, on the store's thread or on the caller's; must not wait.
    package let answer: @Sendable (SnapshotAnswer) -> Void

    package init(
        user: String, subject: SnapshotSubject, answer: @escaping @Sendable (SnapshotAnswer) -> Void
    ) {
        self.user = user
        self.subject = subject
        self.answer = answer
    }
}

extension SnapshotAnswer {
    /// What the database's row says: the epoch, the offset, and the body or NULL.
    init(_ rows: Rows) {
        guard rows.count == 1, let epoch = rows.string(0, 0), let offset = rows.integer(0, 1) else {
            self = .unavailable(after: .seconds(5))
            return
        }
        let answer = rows.withBytes(0, 2) { body -> SnapshotAnswer in
            guard body.count <= StoreLimits.snapshotBytesMax else { return .tooLarge }
            return .found(Snapshot(epoch: epoch, offset: offset, body: Array(body)))
        }
        self = answer ?? .missing
    }
}
