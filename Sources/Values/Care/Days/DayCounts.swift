/// A day's effect on streaks: perfect days extend them, broken days end them, neutral days do neither. What is stored of a
/// day does not depend on the clock: there, one with open doses is broken.
package enum DayClass: Sendable {
    case perfect, neutral, broken
}

/// The doses of one day, counted by status; cancelled ones are not counted.
package struct DayCounts: Hashable, Sendable {
    /// Taken in time.
    package var taken = 0
    /// Missed.
    package var missed = 0
    /// Made up later.
    package var madeUp = 0
    /// Skipped on purpose.
    package var skipped = 0
    /// Scheduled, and not decided yet.
    package var pending = 0
    /// Pending doses whose window and grace have ended: they are due.
    package var overdue = 0

    /// No doses.
    package init() {}

    /// Counts `doses` at `now`.
    package init(_ doses: some Sequence<Dose>, at now: Timestamp) {
        for dose in doses {
            switch dose.state.status {
            case .taken: taken += 1
            case .missed: missed += 1
            case .madeUp: madeUp += 1
            case .skipped: skipped += 1
            case .scheduled:
                pending += 1
                if DoseRules.isOver(dose, at: now) { overdue += 1 }
            case .cancelled: break
            }
        }
    }

    /// All doses.
    package var scheduled: Int { taken + missed + madeUp + skipped + pending }
    /// The doses that percentages are based on: not skipped ones, and pending ones only once they are over.
    package var due: Int { taken + missed + madeUp + overdue }
    /// Taken or made up, of those due; nil when none is due.
    package var adherence: Percentage? { Percentage(taken + madeUp, of: due) }
    /// Taken, of those due; nil when none is due.
    package var onTime: Percentage? { Percentage(taken, of: due) }

    /// The day's effect on streaks by the clock: open doses break a day once they are over, and pass it over until then.
    package var dayClassNow: DayClass {
        pending > 0 ? missed + overdue > 0 ? .broken : .neutral : dayClass
    }

    /// The day's effect on streaks, as it is stored.
    package var dayClass: DayClass {
        if missed == 0, pending == 0, taken + madeUp > 0 { return .perfect }
        return taken + missed + madeUp + pending == 0 ? .neutral : .broken
    }
}
