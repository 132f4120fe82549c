/// What a user wants of one dose: a state, a note, or both.
package struct DoseIntent: Sendable {
    /// The state that the dose should have.
    package var state: DoseState?
    /// A note to add.
    package var note: String?

    /// An intent.
    package init(_ state: DoseState? = nil, note: String? = nil) {
        self.state = state
        self.note = note
    }
}

/// Why an action cannot be done as it is; the user decides.
package enum ConflictCode: String, CaseIterable, Sendable {
    /// Someone has done something else with the dose.
    case state
    /// Too late for this action.
    case late
    /// There is no such dose any more.
    case gone
    /// What was to be undone has been changed since.
    case superseded
}

/// How one dose answers an intent.
package enum DoseVerdict: Equatable, Sendable {
    case applied
    /// Already so.
    case noop
    case conflict(ConflictCode)
    /// Its time has not come.
    case notDue
    /// The time that this member of the payload names is more than a day before the dose's window.
    case untimely(path: String)
}

/// The table of transitions.
package enum DoseRules {
    /// How long after the window's end a dose that counts as missed may still have been taken, in seconds.
    package static let graceSeconds = 1800

    /// How long before its time such a dose may have been taken, in seconds.
    package static let earlySeconds = 43_200

    /// How long before its window a dose may have been taken, in seconds.
    package static let aheadSeconds = 86_400

    /// Decides an intent on a dose of the same user; nil: there is none. Notes alone never conflict.
    ///
    /// - Parameter seenRev: the revision that the device saw; nil where it does not say.
    package static func decide(
        _ intent: DoseIntent, on dose: Dose?, seenRev: Int64? = nil, at now: Timestamp
    ) -> DoseVerdict {
        guard let dose else { return .conflict(.gone) }
        guard let wanted = intent.state else { return .applied }
        let verdict = decide(wanted, on: dose, seenRev: seenRev, at: now)
        return verdict == .noop && intent.note != nil ? .applied : verdict
    }

    /// Whether a dose was taken too long before its window.
    ///
    /// - Parameter isDirect: whether the time was said of this dose. A device's clock, and an action that a resolve names,
    ///   may as well be a day before now: a dose far ahead can be marked.
    package static func isUntimely(
        _ takenAt: Timestamp, of dose: Dose, isDirect: Bool = true, at now: Timestamp
    ) -> Bool {
        var start = min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt)
        if !isDirect { start = min(start, now) }
        return takenAt < start.adding(seconds: -aheadSeconds)
    }

    /// Whether marking all at once leaves the dose alone: it is still to come.
    package static func isToCome(_ dose: Dose, at now: Timestamp) -> Bool {
        dose.state.status == .scheduled && dose.scheduledAt > now
    }

    /// Decides the state of an intent, whatever note is beside it.
    ///
    /// The rule of `seenRev`: a state is set only while the dose's is the one that the device saw, whatever else of the dose
    /// has changed. It does not matter where the dose is so already, nor where it is missed: that says that nobody has told
    /// anything, and stands in nobody's way.
    package static func decide(
        _ wanted: DoseState, on dose: Dose, seenRev: Int64?, at now: Timestamp
    ) -> DoseVerdict {
        let verdict = transition(to: wanted, of: dose, at: now)
        let isStale = seenRev.map { dose.statusRev > $0 } ?? false
        return verdict == .applied && isStale && dose.state.status != .missed ? .conflict(.state) : verdict
    }

    private static func transition(to wanted: DoseState, of dose: Dose, at now: Timestamp) -> DoseVerdict {
        let isDue = now >= dose.windowEnd
        switch (wanted.status, dose.state.status) {
        case (_, .cancelled): return .conflict(.gone)
        case (.taken, .scheduled): return .applied
        case (.taken, .taken): return .noop
        case (.taken, .missed):
            // A late synchronisation must not punish the user.
            let start = min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt).adding(seconds: -earlySeconds)
            let takenAt = wanted.takenAt ?? now
            let isInTime = start <= takenAt && takenAt <= dose.windowEnd.adding(seconds: graceSeconds)
            return isInTime ? .applied : .conflict(.late)
        case (.missed, .scheduled): return isDue ? .applied : .notDue
        case (.missed, .missed): return .noop
        case (.madeUp, .scheduled): return isDue ? .applied : .notDue
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
