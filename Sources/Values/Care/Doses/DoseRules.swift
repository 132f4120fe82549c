/// What a user wants for one dose: a state, a note, or both.
package struct DoseIntent: Sendable {
    /// The wanted state.
    package var state: DoseState?
    /// A note to add.
    package var note: String?

    /// An intent.
    package init(_ state: DoseState? = nil, note: String? = nil) {
        self.state = state
        self.note = note
    }
}

/// Why an action conflicts and the user must decide.
package enum ConflictCode: String, CaseIterable, Sendable {
    /// The state has been changed otherwise.
    case state
    case late
    /// The dose no longer exists.
    case gone
    /// What should be undone has been changed since.
    case superseded
}

/// The result of an intent on one dose.
package enum DoseVerdict: Equatable, Sendable {
    case applied
    /// The dose already is as wanted.
    case noop
    case conflict(ConflictCode)
    case notDue
    /// The dose has as many notes as a dose may have.
    case tooManyNotes
    /// The time in this member is more than a day before the dose's window.
    case untimely(path: String)
}

/// The transition table.
package enum DoseRules {
    /// Seconds after the window's end in which a missed dose may still have been taken.
    package static let graceSeconds = 1800

    /// Seconds before its window or time in which a missed dose may have been taken, or on its day.
    package static let earlySeconds = 43_200

    /// Notes of actions that a dose keeps.
    package static let notesMax = 1_000

    /// Seconds before its window in which a dose may have been taken.
    package static let aheadSeconds = 86_400

    /// Decides an intent on the user's own dose; nil means there is none. Notes alone never conflict.
    ///
    /// - Parameters:
    ///   - seenRev: the revision that the device saw; nil when unknown.
    ///   - isOfItsDay: whether the dose's day had come when it was taken.
    ///   - actedAt: when the person acted; nil: now.
    package static func decide(
        _ intent: DoseIntent, on dose: Dose?, seenRev: Int64? = nil, isOfItsDay: Bool = false,
        actedAt: Timestamp? = nil, at now: Timestamp
    ) -> DoseVerdict {
        guard let dose else { return .conflict(.gone) }
        guard let wanted = intent.state else { return .applied }
        let verdict = decide(
            wanted, on: dose, seenRev: seenRev, isOfItsDay: isOfItsDay, actedAt: actedAt, at: now)
        return verdict == .noop && intent.note != nil ? .applied : verdict
    }

    /// Whether a dose was taken too long before its window, if its day had not come.
    ///
    /// - Parameter isDirect: whether the time was given for this dose. A time from the device's clock or another action may
    ///   also be up to a day before the person acted, so that a dose far ahead can be marked.
    package static func isUntimely(
        _ takenAt: Timestamp, of dose: Dose, isDirect: Bool = true, actedAt: Timestamp
    ) -> Bool {
        var start = min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt)
        if !isDirect { start = min(start, actedAt) }
        return takenAt < start.adding(seconds: -aheadSeconds)
    }

    /// Whether a scheduled dose has ended, with the grace after its window: it counts as missed.
    package static func isOver(_ dose: Dose, at now: Timestamp) -> Bool {
        dose.windowEnd.adding(seconds: graceSeconds) <= now
    }

    /// Whether a dose is in today's list: it falls on that day where the person is, or it is due now.
    ///
    /// - Parameters:
    ///   - utcOffset: the offset of the dose's zone at its time.
    ///   - here: that of the person's zone at the same time.
    package static func isOfToday(
        _ dose: Dose, _ today: LocalDate, utcOffset: Int, here: Int, at now: Timestamp
    ) -> Bool {
        // Zones are 26 hours apart at most, and a window has a day.
        guard (today.adding(-3)...today.adding(3)).contains(dose.day) else { return false }
        let isDue = dose.scheduledAt <= now && now < dose.windowEnd && !dose.isAsNeeded
        let shift = dose.scheduledAt.date(utcOffset: here).days - dose.scheduledAt.date(utcOffset: utcOffset).days
        return isDue || dose.day.adding(shift) == today
    }

    /// Whether nobody has acted on a dose since an instant: it is scheduled, or was missed between that and now.
    package static func isOpen(_ dose: Dose, since acted: Timestamp, at now: Timestamp) -> Bool {
        let end = dose.windowEnd.adding(seconds: graceSeconds)
        return dose.state.status == .scheduled || dose.state.status == .missed && end > acted && end <= now
    }

    /// Whether a bulk action by criteria skips the dose because it was still to come.
    package static func isToCome(_ dose: Dose, actedAt: Timestamp, at now: Timestamp) -> Bool {
        isOpen(dose, since: actedAt, at: now) && dose.scheduledAt > actedAt
    }

    /// Decides the state of an intent; its note does not matter.
    ///
    /// Rule of `seenRev`: a state is set only if the device saw the dose's current state; other changes do not matter.
    /// Exceptions: the dose already has the state, or it is missed, which only means that nothing was reported.
    package static func decide(
        _ wanted: DoseState, on dose: Dose, seenRev: Int64?, isOfItsDay: Bool = false, actedAt: Timestamp? = nil,
        at now: Timestamp
    ) -> DoseVerdict {
        let verdict = transition(
            to: wanted, of: dose, isOfItsDay: isOfItsDay, actedAt: actedAt ?? now, at: now)
        let isStale = seenRev.map { dose.statusRev > $0 } ?? false
        return verdict == .applied && isStale && dose.state.status != .missed ? .conflict(.state) : verdict
    }

    private static func transition(
        to wanted: DoseState, of dose: Dose, isOfItsDay: Bool, actedAt: Timestamp, at now: Timestamp
    ) -> DoseVerdict {
        let isOpen = isOpen(dose, since: actedAt, at: now)
        switch (wanted.status, dose.state.status) {
        case (_, .cancelled): return .conflict(.gone)
        case (.missed, _) where isOpen, (.madeUp, _) where isOpen:
            return actedAt < dose.windowEnd ? .notDue : .applied
        case (.taken, .scheduled): return .applied
        case (.taken, .taken): return .noop
        case (.taken, .missed):
            // A late sync must not punish the user.
            let start = min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt).adding(seconds: -earlySeconds)
            let takenAt = wanted.takenAt ?? now
            let isInTime = (start <= takenAt || isOfItsDay) && takenAt <= dose.windowEnd.adding(seconds: graceSeconds)
            return isInTime ? .applied : .conflict(.late)
        case (.missed, .scheduled), (.madeUp, .scheduled): return .applied
        case (.missed, .missed): return .noop
        case (.madeUp, .taken), (.madeUp, .madeUp): return .noop
        case (.madeUp, .missed): return .applied
        case (.skipped, .scheduled), (.skipped, .missed): return .applied
        case (.skipped, .skipped): return .noop
        case (.taken, .madeUp), (.taken, .skipped), (.missed, .taken), (.missed, .madeUp), (.missed, .skipped),
            (.madeUp, .skipped), (.skipped, .taken), (.skipped, .madeUp), (.scheduled, _), (.cancelled, _):
            return .conflict(.state)
        }
    }
}
