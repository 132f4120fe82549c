/// What makes a day: perfect ones make streaks, broken ones end them, neutral ones do neither.
package enum DayClass: Sendable {
    case perfect, neutral, broken
}

/// The doses of one day, counted by status; cancelled ones do not count.
package struct DayCounts: Hashable, Sendable {
    package var taken = 0
    package var missed = 0
    package var madeUp = 0
    package var skipped = 0
    package var pending = 0
    /// Pending ones whose window has ended: those are due.
    package var overdue = 0

    /// No dose.
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
                if dose.windowEnd <= now { overdue += 1 }
            case .cancelled: break
            }
        }
    }

    /// All doses.
    package var scheduled: Int { taken + missed + madeUp + skipped + pending }
    /// Those that percentages are of: skipped ones are neutral, pending ones due when their window has ended.
    package var due: Int { taken + missed + madeUp + overdue }
    /// Taken or made up, of those due; nil where none is.
    package var adherence: Percentage? { Percentage(taken + madeUp, of: due) }
    /// Taken, of those due; nil where none is.
    package var onTime: Percentage? { Percentage(taken, of: due) }

    /// What the day is for a streak.
    package var dayClass: DayClass {
        if missed == 0, pending == 0, taken + madeUp > 0 { return .perfect }
        return taken + missed + madeUp + pending == 0 ? .neutral : .broken
    }
}
