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
