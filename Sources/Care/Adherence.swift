/// What makes a day: perfect ones make streaks, broken ones end them, neutral ones do neither.
package enum DayClass: Sendable {
    case perfect, neutral, broken
}

/// A share in per cent with one decimal, rounded half up.
package struct Percentage: Hashable, Sendable {
    /// Tenths of a per cent, 0 to 1000.
    package let tenths: Int

    /// `part` of `whole`; nil where there is no whole.
    package init?(_ part: Int, of whole: Int) {
        guard whole > 0 else { return nil }
        tenths = (2000 * part + whole) / (2 * whole)
    }

    /// The mean; nil of none.
    package init?(meanOf shares: [Percentage]) {
        guard !shares.isEmpty else { return nil }
        let sum = shares.reduce(0) { $0 + $1.tenths }
        tenths = (2 * sum + shares.count) / (2 * shares.count)
    }

    /// As PostgreSQL writes a `numeric` of that scale: `66.7`.
    package var text: String { "\(tenths / 10).\(tenths % 10)" }
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

/// The streak at the end of a day.
package struct StreakRun: Hashable, Sendable {
    /// Perfect days in a row up to this one, over neutral ones.
    package let run: Int
    /// The longest run so far.
    package let best: Int

    /// Before the first day.
    package static let none = StreakRun(run: 0, best: 0)

    /// The streak after a day of class `day`.
    package func after(_ day: DayClass) -> StreakRun {
        let next = day == .perfect ? run + 1 : day == .neutral ? run : 0
        return StreakRun(run: next, best: max(best, next))
    }
}

/// What a user's history says on one day.
package struct AdherenceStatistics: Hashable, Sendable {
    /// Days of whole months that the averages cover, today not among them.
    package static let days = 30

    /// Perfect days in a row; today counts once it is perfect and breaks nothing before its end.
    package let currentStreakDays: Int
    package let bestStreakDays: Int
    /// The mean of the days' percentages.
    package let average30Days: Percentage?
    /// The percentage of all doses of those days.
    package let doses30: Percentage?

    /// From the days that have a summary, in order, and what the last thirty count now.
    ///
    /// - Parameters:
    ///   - streaks: for each day with a summary its class and streak, in the order of days.
    ///   - counts: what each of the 30 days before `today` counts now, those without doses left out.
    package init(today: LocalDate, streaks: [(day: LocalDate, dayClass: DayClass, streak: StreakRun)],
                 counts: [DayCounts]) {
        let before = streaks.last { $0.day < today }?.streak ?? .none
        let now = streaks.last { $0.day == today }
        currentStreakDays = now.map { $0.dayClass == .broken ? before.run : $0.streak.run } ?? before.run
        bestStreakDays = max(before.best, now.map { $0.dayClass == .perfect ? $0.streak.run : 0 } ?? 0)
        average30Days = Percentage(meanOf: counts.compactMap(\.adherence))
        doses30 = Percentage(
            counts.reduce(0) { $0 + $1.taken + $1.madeUp }, of: counts.reduce(0) { $0 + $1.due })
    }
}
