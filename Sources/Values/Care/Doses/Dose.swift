import Bytes

/// What has become of a dose.
package enum DoseStatus: String, CaseIterable, Sendable {
    case scheduled, taken, missed
    case madeUp = "made_up"
    case skipped, cancelled
}

/// The part of a dose that status actions set, always together.
package struct DoseState: Sendable {
    /// What has become of it.
    package var status: DoseStatus
    /// When it was taken or made up; nil for all other statuses.
    package var takenAt: Timestamp?
    /// Why it was made up or skipped.
    package var reason: String?

    /// A state.
    package init(_ status: DoseStatus, takenAt: Timestamp? = nil, reason: String? = nil) {
        self.status = status
        self.takenAt = takenAt
        self.reason = reason
    }

    /// Equal, the reason byte for byte.
    package static func == (left: DoseState, right: DoseState) -> Bool {
        left.status == right.status && left.takenAt == right.takenAt && sameText(left.reason, right.reason)
    }
}

/// Both nil, or the same bytes.
func sameText(_ left: String?, _ right: String?) -> Bool {
    switch (left, right) {
    case (nil, nil): true
    case (let left?, let right?): left.hasSameBytes(as: right)
    default: false
    }
}

/// One dose at one time, as its row is.
package struct Dose: Sendable {
    /// Its id, unique among those of all users.
    package let id: Identifier
    /// Whose it is.
    package private(set) var user: Identifier
    /// The rule that it comes from, and what is to be taken, as far as known.
    package let scheduleID: String?
    package let productID: String?
    /// What has become of it.
    package var state: DoseState
    /// The latest of its notes.
    package var note: String?
    /// When it is to be taken.
    package let scheduledAt: Timestamp
    /// The zone in which it was scheduled, and how many seconds its clocks were ahead of UTC then.
    package let zone: String
    package let utcOffset: Int
    /// The day for which it counts.
    package var day: LocalDate
    /// From then on it may be taken; nil: at any time.
    package let windowStart: Timestamp?
    /// From then on it is due: it can be missed or made up.
    package let windowEnd: Timestamp
    /// Grows by one with each change.
    package var rev: Int64 = 1
    /// `rev` when the state was last changed, and when the note was.
    package var statusRev: Int64 = 1
    package var noteRev: Int64 = 1
    /// Key and device of the action that changed it last; nil for writers outside of the hub.
    package var changedKey: Identifier?
    package var changedDevice: Identifier?
    /// When its row was made, and last changed.
    package let createdAt: Timestamp
    package var updatedAt: Timestamp

    /// A dose as it is when a writer inserts it.
    package init(
        id: Identifier, user: Identifier, scheduleID: String? = nil, productID: String? = nil,
        state: DoseState = DoseState(.scheduled), note: String? = nil, scheduledAt: Timestamp, zone: String = "UTC",
        utcOffset: Int = 0, day: LocalDate, windowStart: Timestamp? = nil, windowEnd: Timestamp, createdAt: Timestamp
    ) {
        self.id = id
        self.user = user
        self.scheduleID = scheduleID
        self.productID = productID
        self.state = state
        self.note = note
        self.scheduledAt = scheduledAt
        self.zone = zone
        self.utcOffset = utcOffset
        self.day = day
        self.windowStart = windowStart
        self.windowEnd = windowEnd
        self.createdAt = createdAt
        updatedAt = createdAt
    }

    /// The same dose as another user's, by a writer outside of the hub.
    func moved(to taker: Identifier, at now: Timestamp) -> Dose {
        var dose = self
        dose.user = taker
        dose.rev += 1
        dose.changedKey = nil
        dose.changedDevice = nil
        dose.updatedAt = now
        return dose
    }

    /// Whether `other` has the same state, note and day: all that is ever written to a dose.
    package func hasSameContent(as other: Dose) -> Bool {
        state == other.state && day == other.day && sameText(note, other.note)
    }
}
