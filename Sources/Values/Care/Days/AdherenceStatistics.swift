/// The streak at the end of a day.
package struct StreakRun: Hashable, Sendable {
    /// Perfect days in a row up to this day; neutral days are skipped.
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

/// A user's statistics on one day.
package struct AdherenceStatistics: Hashable, Sendable {
    /// The number of whole days that the averages cover, today excluded.
    package static let days = 30

    /// Perfect days in a row. Today counts once it is perfect, and does not break the streak before it ends.
    package let currentStreakDays: Int
    /// The most perfect days in a row so far.
    package let bestStreakDays: Int
    /// The mean of the days' percentages.
    package let average30Days: Percentage?
    /// The percentage over all doses of those days.
    package let doses30: Percentage?

    /// Computes the statistics. A day that is still open breaks no streak: today, and one whose open doses are not over.
    ///
    /// - Parameters:
    ///   - before: the streak before the 30 days.
    ///   - counts: current counts of the 30 days before `today`, and of today, without days that have no doses. Later days
    ///     change nothing.
    package init(today: LocalDate, before: StreakRun, counts: [LocalDate: DayCounts]) {
        let past = counts.filter { $0.key < today }
        var streak = past.sorted { $0.key < $1.key }.reduce(before) { $0.after($1.value.dayClassNow) }
        if let now = counts[today]?.dayClass, now != .broken { streak = streak.after(now) }
        currentStreakDays = streak.run
        bestStreakDays = streak.best
        average30Days = Percentage(meanOf: past.values.compactMap(\.adherence))
        doses30 = Percentage(
            past.values.reduce(0) { $0 + $1.taken + $1.madeUp }, of: past.values.reduce(0) { $0 + $1.due })
    }
}
