/// A day of the proleptic Gregorian calendar.
package struct LocalDate: Hashable, Comparable, Sendable {
    /// Days since 1970-01-01.
    package let days: Int

    /// The day `days` days after 1970-01-01.
    package init(days: Int) {
        self.days = days
    }

    /// The day `year`-`month`-`day`; nil when it does not exist.
    package init?(year: Int, month: Int, day: Int) {
        guard (1...9999).contains(year), (1...12).contains(month), day >= 1 else { return nil }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let length = month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
        guard day <= length else { return nil }
        // Years from March: the leap day comes last.
        let shifted = month > 2 ? year : year - 1
        let era = shifted / 400
        let yearOfEra = shifted % 400
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// Year, month and day. Valid for the years 1 to 9999, all that a dose may have.
    package var civil: (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let part = (5 * dayOfYear + 2) / 153
        let month = part < 10 ? part + 3 : part - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * part + 2) / 5 + 1)
    }

    /// Earlier days first.
    package static func < (left: LocalDate, right: LocalDate) -> Bool { left.days < right.days }

    /// The day `count` days later.
    package func adding(_ count: Int) -> LocalDate { LocalDate(days: days + count) }
}
