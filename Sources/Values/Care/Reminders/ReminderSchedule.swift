/// A schedule as reminder rules see it: what a rule that is linked to it takes of it, and on which days it gives anything.
package struct ReminderSchedule: Hashable, Sendable {
    /// Its product or stack, and its time, zone and days; as needed, it has no time.
    package var fields: ReminderFields
    /// False: it is paused.
    package var isEnabled = true
    /// Its product was archived: it gives nothing meanwhile.
    package var isArchived = false
    /// The first day.
    package var startsOn: LocalDate?
    /// The last day.
    package var endsOn: LocalDate?

    /// A schedule that gives something at these fields' time and days.
    package init(_ fields: ReminderFields) {
        self.fields = fields
    }

    /// What a linked rule takes.
    static let taken: [ReminderField] = [.time, .zone, .zoneMode, .repeats, .days]

    var isAsNeeded: Bool { fields[.repeats] == .text("as_needed") }

    /// Whether a rule that is linked to it may remind on a day that it repeats on.
    func allows(_ day: LocalDate) -> Bool {
        isEnabled && !isArchived && !isAsNeeded && startsOn.map { $0 <= day } ?? true
            && endsOn.map { day <= $0 } ?? true
    }

    /// Whether it gives anything on other days than `other`, at the same time and repetition.
    func hasOtherDays(than other: ReminderSchedule) -> Bool {
        (isEnabled, isArchived, isAsNeeded) != (other.isEnabled, other.isArchived, other.isAsNeeded)
            || (startsOn, endsOn) != (other.startsOn, other.endsOn)
    }
}
