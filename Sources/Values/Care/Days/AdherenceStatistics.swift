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

    /// Computes the statistics.
    ///
    /// - Parameters:
    ///   - streaks: class and streak of each day with a summary, in order.
    ///   - counts: current counts of the 30 days before `today`, without days that have no doses.
    package init(
        today: LocalDate, streaks: [(day: LocalDate, dayClass: DayClass, streak: StreakRun)],
        counts: [DayCounts]
    ) {
        let before = streaks.last { $0.day < today }?.streak ?? .none
        let now = streaks.last { $0.day == today }
        currentStreakDays = now.map { $0.dayClass == .broken ? before.run : $0.streak.run } ?? before.run
        bestStreakDays = max(before.best, now.map { $0.dayClass == .perfect ? $0.streak.run : 0 } ?? 0)
        average30Days = Percentage(meanOf: counts.compactMap(\.adherence))
        doses30 = Percentage(
            counts.reduce(0) { $0 + $1.taken + $1.madeUp }, of: counts.reduce(0) { $0 + $1.due })
    }
}
