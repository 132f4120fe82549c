/// A schedule: what is to be taken, at one time of day.
package struct PlannedSchedule: Equatable, Sendable {
    /// How it repeats.
    package enum Rule: Hashable, Sendable {
        case daily, weekdays, asNeeded
        /// On these days; 1 is Monday.
        case on(Set<Int>)

        func fires(on day: LocalDate) -> Bool {
            // 1970-01-01 was a Thursday.
            let weekday = Int(Timestamp.split(Int64(day.days + 3), by: 7).rest) + 1
            switch self {
            case .daily: return true
            case .weekdays: return weekday < 6
            case .on(let days): return days.contains(weekday)
            case .asNeeded: return false
            }
        }
    }

    /// Its id.
    package let id: String
    /// Its products; of a stack those of its items, which `isStack` says.
    package var products: [String]
    /// Whether ids of doses name the product.
    package var isStack: Bool
    /// Minutes after midnight.
    package var minute: Int
    /// How it repeats.
    package var rule: Rule
    /// How long its doses may be taken.
    package var windowMinutes = 240
    /// The first day.
    package var startsOn: LocalDate?
    /// The last day.
    package var endsOn: LocalDate?
    /// False: it is paused.
    package var isEnabled = true
    /// Where its time is meant.
    package var zone: ZoneTransitions

    /// A schedule of one product.
    package init(_ id: String, _ product: String, minute: Int, rule: Rule = .daily, zone: ZoneTransitions) {
        self.id = id
        products = [product]
        isStack = false
        self.minute = minute
        self.rule = rule
        self.zone = zone
    }

    /// Whether that is its time; as needed, it has none.
    func has(_ time: Int) -> Bool { rule != .asNeeded && minute == time }

    /// Whether it gives something at that time, on some days.
    func gives(_ time: Int) -> Bool { isEnabled && has(time) }

    /// What it gives on a day: one dose for each product.
    func slots(on day: LocalDate) -> [PlannedDose] {
        guard isEnabled, rule.fires(on: day), startsOn.map({ $0 <= day }) ?? true, endsOn.map({ day <= $0 }) ?? true,
            zone.has(day)
        else { return [] }
        let second = zone.second(of: day.days * 86_400 + minute * 60)
        return products.map { product in
            let name = PlannedDose.Name(schedule: id, day: day, minute: minute, item: isStack ? product : nil)
            return PlannedDose(
                name: name, product: product, second: second, zone: zone.name, windowMinutes: windowMinutes)
        }
    }
}

/// A dose that a schedule gave.
package struct PlannedDose: Hashable, Sendable {
    /// What its id is made of: an id that comes back is the same dose again.
    package struct Name: Hashable, Sendable {
        /// The schedule.
        package let schedule: String
        /// The local day.
        package let day: LocalDate
        /// Minutes after midnight.
        package let minute: Int
        /// The product, of a stack's schedule.
        package let item: String?
    }

    /// What its id is made of.
    package let name: Name
    /// Its product.
    package var product: String
    /// When it is due: seconds since 1970, UTC.
    package var second: Int
    /// The zone in force when that was computed.
    package var zone: String
    /// How long it may be taken.
    package var windowMinutes: Int
    /// Its status.
    package var status = DoseStatus.scheduled
    /// The planner cancelled it, and may bring it back.
    package var isCancelledByPlan = false

    /// When it may be taken no more, but for the grace.
    var windowEnd: Int { second + windowMinutes * 60 }

    /// Whether it is as a schedule gives it, whatever became of it.
    func isPlanned(as slot: PlannedDose) -> Bool {
        (product, second, zone, windowMinutes) == (slot.product, slot.second, slot.zone, slot.windowMinutes)
    }

    /// At most one dose of a slot is not cancelled.
    var slot: [String] { [name.schedule, product, String(name.day.days)] }
}
