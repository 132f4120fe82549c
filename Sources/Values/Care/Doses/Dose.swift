import Bytes

/// The status of a dose.
package enum DoseStatus: String, CaseIterable, Sendable {
    case scheduled, taken, missed
    case madeUp = "made_up"
    case skipped, cancelled
}

/// Who changed a dose.
package enum DoseActor: String, Sendable {
    /// A person, by an action.
    case user
    /// A job.
    case system
    /// Any other writer.
    case backend
}

/// By whom a dose was changed last; a writer other than the hub has no key and no device.
package struct DoseChange: Sendable {
    /// The key of the action.
    package var key: Identifier?
    /// The device of the action.
    package var device: Identifier?
    /// What kind of writer it was.
    package var actor = DoseActor.backend
}

/// The fields of a dose that status actions set together.
package struct DoseState: Sendable {
    /// The status.
    package var status: DoseStatus
    /// When it was taken or made up; nil for all other statuses.
    package var takenAt: Timestamp?
    /// The offset from UTC, in seconds, of the time that the device sent for `takenAt`; nil if it sent none.
    package var takenOffset: Int?
    /// Why it was made up or skipped.
    package var reason: String?

    /// A state.
    package init(_ status: DoseStatus, takenAt: Timestamp? = nil, takenOffset: Int? = nil, reason: String? = nil) {
        self.status = status
        self.takenAt = takenAt
        self.takenOffset = takenOffset
        self.reason = reason
    }

    /// Compares all fields, the reason byte for byte.
    package static func == (left: DoseState, right: DoseState) -> Bool {
        left.status == right.status && left.takenAt == right.takenAt && left.takenOffset == right.takenOffset
            && sameText(left.reason, right.reason)
    }
}

func sameText(_ left: String?, _ right: String?) -> Bool {
    switch (left, right) {
    case (nil, nil): true
    case (let left?, let right?): left.hasSameBytes(as: right)
    default: false
    }
}

/// One dose at one time, with the columns of its row.
package struct Dose: Sendable {
    /// Its id, unique across all users.
    package let id: Identifier
    /// The user it belongs to.
    package private(set) var user: Identifier
    /// Its schedule and product, if known.
    package let scheduleID: String?
    /// Its product, if known.
    package let productID: String?
    /// Its status, with time and reason.
    package var state: DoseState
    /// Its latest note.
    package var note: String?
    /// When it should be taken.
    package let scheduledAt: Timestamp
    /// The zone in which it was scheduled, and that zone's offset from UTC then, in seconds.
    package let zone: String
    /// The zone's offset from UTC then, in seconds.
    package let utcOffset: Int
    /// The day that it counts for.
    package var day: LocalDate
    /// From when it may be taken; nil: at any time.
    package let windowStart: Timestamp?
    /// From when it is due: it can then be missed or made up.
    package let windowEnd: Timestamp
    /// Whether it is an intake that no schedule asked for.
    package let isAsNeeded: Bool
    /// Grows by one with each change.
    package var rev: Int64 = 1
    /// `rev` of the last change of the state, and of the note.
    package var statusRev: Int64 = 1
    /// `rev` of the last change of the note.
    package var noteRev: Int64 = 1
    /// Who changed it last.
    package var changed = DoseChange()
    /// When its row was created and last changed.
    package let createdAt: Timestamp
    /// When its row was last changed.
    package var updatedAt: Timestamp

    /// A newly inserted dose.
    package init(
        id: Identifier, user: Identifier, scheduleID: String? = nil, productID: String? = nil,
        state: DoseState = DoseState(.scheduled), note: String? = nil, scheduledAt: Timestamp, zone: String = "UTC",
        utcOffset: Int = 0, day: LocalDate, windowStart: Timestamp? = nil, windowEnd: Timestamp, createdAt: Timestamp,
        isAsNeeded: Bool = false
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
        self.isAsNeeded = isAsNeeded
        updatedAt = createdAt
    }

    /// The dose after a writer other than the hub has given it to another user.
    func moved(to taker: Identifier, at now: Timestamp) -> Dose {
        var dose = self
        dose.user = taker
        dose.rev += 1
        dose.changed = DoseChange()
        dose.updatedAt = now
        return dose
    }

    /// Whether `other` has the same state, note and day: the only fields that are ever updated.
    package func hasSameContent(as other: Dose) -> Bool {
        state == other.state && day == other.day && sameText(note, other.note)
    }
}
