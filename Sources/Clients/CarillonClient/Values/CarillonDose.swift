import Care
import Foundation
import JSON

/// A dose, as a screen shows it: what the hub said, time, and what the person did and no hub has confirmed yet.
public struct CarillonDose: Sendable, Equatable, Identifiable {
    /// What became of it.
    public enum Status: String, Sendable {
        case scheduled, taken, missed
        case madeUp = "made_up"
        case skipped, cancelled
    }

    /// What is taken.
    public struct Product: Sendable, Equatable {
        /// Its id; nil where the dose names no product.
        public let id: String?
        /// Its name.
        public let name: String?
        /// Its strength, such as `5 mg`.
        public let strength: String?
        /// Its form, such as `tablet`.
        public let form: String?

        init(_ tree: JSONTree) {
            id = tree["productId"]?.string
            name = tree["productName"]?.string
            strength = tree["strength"]?.string
            form = tree["form"]?.string
        }
    }

    /// Its id, for actions.
    public let id: String
    /// Its schedule; nil for an intake that no schedule asked for.
    public let scheduleID: String?
    /// What is taken.
    public let product: Product
    /// How much of it.
    public let amount: String?
    /// Whether no schedule asked for it. It counts in no summary.
    public let isAsNeeded: Bool
    /// What became of it.
    public let status: Status
    /// When it was taken or made up.
    public let takenAt: Date?
    /// Why it was made up or skipped.
    public let reason: String?
    /// The last note.
    public let note: String?
    /// Whether there is a note. Its text may still have to be fetched.
    public let hasNote: Bool
    /// Counts its changes.
    public let rev: Int64
    /// When it should be taken.
    public let scheduledAt: Date
    /// The local time of that, such as `08:00`.
    public let time: String
    /// The day that it counts for, such as `2025-11-14`.
    public let date: String
    /// The zone in which it was scheduled.
    public let timeZone: String
    /// From when it may be taken; nil: at any time.
    public let windowStart: Date?
    /// From when it is due: it can then be missed or made up.
    public let windowEnd: Date
    /// The device whose action changed it last; nil for other writers.
    public let changedByDevice: String?
    /// An action of this device on it is not confirmed yet.
    public let isPending: Bool
    /// A conflict about it waits for the person.
    public let hasConflict: Bool

    init(_ tree: JSONTree, isPending: Bool, hasConflict: Bool) {
        id = tree["id"]?.string ?? ""
        scheduleID = tree["scheduleId"]?.string
        product = Product(tree)
        amount = tree["dose"]?.string
        isAsNeeded = tree["asNeeded"]?.flag ?? false
        status = tree["status"]?.string.flatMap(Status.init(rawValue:)) ?? .scheduled
        takenAt = tree.date("takenAt")
        reason = tree["reason"]?.string
        note = tree["note"]?.string
        hasNote = tree["hasNote"]?.flag ?? (note != nil)
        rev = tree["rev"]?.integer ?? 0
        scheduledAt = tree.date("scheduledAt") ?? .distantPast
        let local = tree["timeLocal"]?.string ?? ""
        time = String(local.dropFirst(11).prefix(5))
        date = tree["localDate"]?.string ?? ""
        timeZone = tree["timezone"]?.string ?? "UTC"
        windowStart = tree.date("windowStart")
        windowEnd = tree.date("windowEnd") ?? scheduledAt
        changedByDevice = tree["changedBy"]?["deviceId"]?.string
        self.isPending = isPending
        self.hasConflict = hasConflict
    }
}

/// The doses of one day, counted.
public struct CarillonDay: Sendable, Equatable {
    /// The day, such as `2025-11-14`.
    public let date: String
    /// All doses.
    public let scheduledCount: Int
    /// Taken in time.
    public let takenCount: Int
    /// Missed.
    public let missedCount: Int
    /// Made up later.
    public let madeUpCount: Int
    /// Skipped on purpose.
    public let skippedCount: Int
    /// Not decided yet.
    public let pendingCount: Int
    /// Taken or made up, of those due, in per cent; nil when none is due.
    public let adherence: Double?
    /// Taken, of those due, in per cent; nil when none is due.
    public let onTime: Double?

    init(_ tree: JSONTree) {
        func count(_ name: String) -> Int { Int(tree[name]?.integer ?? 0) }
        date = tree["date"]?.string ?? ""
        scheduledCount = count("scheduledCount")
        takenCount = count("takenCount")
        missedCount = count("missedCount")
        madeUpCount = count("madeUpCount")
        skippedCount = count("skippedCount")
        pendingCount = count("pendingCount")
        adherence = tree["adherencePct"]?.double
        onTime = tree["onTimePct"]?.double
    }
}

/// The user's statistics, as the hub told them last.
public struct CarillonStatistics: Sendable, Equatable {
    /// Days in a row on which nothing was missed.
    public let currentStreakDays: Int
    /// The most of them so far.
    public let bestStreakDays: Int
    /// The mean of the days' percentages, of the 30 days before today.
    public let average30Days: Double?
    /// The percentage of all doses of these days together.
    public let doses30: Double?

    init(_ tree: JSONTree) {
        currentStreakDays = Int(tree["currentStreakDays"]?.integer ?? 0)
        bestStreakDays = Int(tree["bestStreakDays"]?.integer ?? 0)
        average30Days = tree["avg30DaysPct"]?.double
        doses30 = tree["doses30Pct"]?.double
    }
}

/// The doses that fall on today where the user is, and those that are due now, whatever their date.
public struct CarillonToday: Sendable, Equatable {
    /// The day in the user's zone, such as `2025-11-14`.
    public let date: String
    /// In the order of their times, without cancelled ones.
    public let doses: [CarillonDose]
    /// The doses of the date, counted, as the month has them.
    public let summary: CarillonDay
    /// The statistics; nil before the hub has told them.
    public let statistics: CarillonStatistics?
}

extension JSONTree {
    func date(_ name: String) -> Date? { self[name]?.string.flatMap(TimeText.instant)?.date }

    var double: Double? {
        guard case .number(let text) = self else { return nil }
        return Double(text)
    }
}
