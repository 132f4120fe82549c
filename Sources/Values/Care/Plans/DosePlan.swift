/// The reference model of the planner: which doses schedules have, after each change of them.
///
/// It has no clock: each call is one transaction at the second that the caller gives, of what a person did then or, told
/// late by a device, at an earlier second `since`. It follows the rules of sql/functions/58_care_plan.sql from their words,
/// a day at a time.
package struct DosePlan: Sendable {
    /// Days after today that are planned.
    package static let horizon = 14
    /// Days back for which a new schedule is filled at most.
    package static let past = 90

    /// When a call is, and since when what it says is so.
    private struct Moment {
        let now: Int
        let since: Int

        init(_ now: Int, _ since: Int?) { (self.now, self.since) = (now, min(since ?? now, now)) }
    }

    /// All doses, by what their ids are made of.
    package private(set) var doses: [PlannedDose.Name: PlannedDose] = [:]
    /// All schedules.
    package private(set) var schedules: [String: PlannedSchedule] = [:]
    /// Products that give no new doses, and since when.
    private var archived: [String: Int] = [:]
    private var plannedUntil: [String: LocalDate] = [:]
    /// When a plan took doses away.
    private var cancelledAt: [PlannedDose.Name: Int] = [:]
    /// When the job is to plan a schedule again: when its day ends.
    private var due: [String: Int] = [:]

    /// Nothing planned.
    package init() {}

    // MARK: Changes

    /// Writes a schedule that is new, or changes one.
    package mutating func write(_ schedule: PlannedSchedule, at now: Int, since: Int? = nil) {
        let moment = Moment(now, since)
        if let before = schedules[schedule.id] {
            guard before != schedule else { return }
            fillGap(before, at: moment)
            schedules[schedule.id] = schedule
            plan(schedule, at: moment, lateFrom: nil)
            planOthers(than: before, at: moment)
            if let end = before.startsOn, let start = schedule.startsOn {
                fill(schedule, from: start, until: end, at: moment)
            }
        } else {
            schedules[schedule.id] = schedule
            let earliest = schedule.zone.day(at: moment.since).adding(-Self.past)
            plan(schedule, at: moment, lateFrom: schedule.startsOn.map { max($0, earliest) })
        }
    }

    /// Deletes a schedule: nothing lies ahead any more.
    package mutating func delete(_ id: String, at now: Int, since: Int? = nil) {
        guard let before = schedules.removeValue(forKey: id) else { return }
        var schedule = before
        schedule.isEnabled = false
        plan(schedule, at: Moment(now, since), lateFrom: nil)
        planOthers(than: before, at: Moment(now, since))
        plannedUntil[id] = nil
        due[id] = nil
    }

    /// The items of a stack change.
    package mutating func restock(_ id: String, _ products: [String], at now: Int, since: Int? = nil) {
        guard var schedule = schedules[id], schedule.isStack else { return }
        schedule.products = products
        schedules[id] = schedule
        goOn(schedule, at: Moment(now, since))
    }

    /// A product is archived, or comes back.
    package mutating func archive(_ product: String, _ isArchived: Bool, at now: Int) {
        guard (archived[product] != nil) != isArchived else { return }
        archived[product] = isArchived ? now : nil
        for schedule in schedules.values where schedule.products.contains(product) {
            goOn(schedule, at: Moment(now, nil))
        }
    }

    /// The job: every schedule has its horizon.
    package mutating func catchUp(at now: Int) {
        for schedule in schedules.values where due[schedule.id].map({ $0 <= now }) ?? false {
            goOn(schedule, at: Moment(now, nil))
        }
    }

    /// A person, or the job of missed doses, sets a status.
    package mutating func set(_ name: PlannedDose.Name, _ status: DoseStatus, at now: Int) {
        guard var dose = doses[name], dose.status != status else { return }
        let isBack = dose.status == .cancelled
        dose.status = status
        dose.isCancelledByPlan = false
        doses[name] = dose
        guard isBack, schedules[name.schedule] != nil else { return }
        for other in doses.values where other.slot == dose.slot && other.name != name && other.status == .scheduled {
            cancel(other, at: now)
        }
    }

    // MARK: Planning

    /// What a schedule gives on a day: of an archived product nothing, but for what is filled until `filled`.
    private func slots(_ schedule: PlannedSchedule, on day: LocalDate, filled: Int?) -> [PlannedDose] {
        schedule.slots(on: day).filter { slot in
            guard let end = archived[slot.product] else { return true }
            return filled.map { slot.second <= min($0, end) } ?? false
        }
    }

    private mutating func cancel(_ dose: PlannedDose, at now: Int) {
        doses[dose.name]?.status = .cancelled
        doses[dose.name]?.isCancelledByPlan = true
        cancelledAt[dose.name] = now
    }

    private mutating func goOn(_ schedule: PlannedSchedule, at moment: Moment) {
        plan(schedule, at: moment, lateFrom: unplanned(schedule, at: moment), isFilled: true)
    }

    /// The first day that no plan has seen.
    private func unplanned(_ schedule: PlannedSchedule, at moment: Moment) -> LocalDate? {
        plannedUntil[schedule.id].map { max($0.adding(1), schedule.zone.day(at: moment.since).adding(-Self.past)) }
    }

    /// What the schedule gave until then, on days that no job came by for.
    private mutating func fillGap(_ schedule: PlannedSchedule, at moment: Moment) {
        guard var day = unplanned(schedule, at: moment) else { return }
        while day <= schedule.zone.day(at: moment.since) {
            for slot in slots(schedule, on: day, filled: moment.since) where slot.second <= moment.since { fill(slot) }
            day = day.adding(1)
        }
    }

    /// A schedule that begins earlier than it did: what it gave until then, before its former start.
    private mutating func fill(
        _ schedule: PlannedSchedule, from start: LocalDate, until end: LocalDate, at moment: Moment
    ) {
        let today = schedule.zone.day(at: moment.since)
        var day = max(start, today.adding(-Self.past))
        while day < end, day <= today {
            for slot in slots(schedule, on: day, filled: nil) where slot.second <= moment.since { fill(slot) }
            day = day.adding(1)
        }
    }

    /// Doses that stayed where a schedule's time was may be asked for instead of those of others.
    private mutating func planOthers(than before: PlannedSchedule, at moment: Moment) {
        let days = Int(Timestamp.split(Int64(moment.since), by: 86_400).whole) - 1...moment.now / 86_400 + 2
        let times = doses.keys.filter { $0.schedule == before.id && days.contains($0.day.days) }.map(\.minute)
        for schedule in schedules.values where schedule.id != before.id {
            guard schedule.gives(schedule.minute), !before.has(schedule.minute), times.contains(schedule.minute)
            else { continue }
            goOn(schedule, at: Moment(moment.now, nil))
        }
    }

    private mutating func plan(
        _ schedule: PlannedSchedule, at moment: Moment, lateFrom: LocalDate?, isFilled: Bool = false
    ) {
        let (today, then) = (schedule.zone.day(at: moment.now), schedule.zone.day(at: moment.since))
        let last = max(today.adding(Self.horizon), plannedUntil[schedule.id] ?? today)
        let isLate = { (day: LocalDate) in lateFrom.map { $0 <= day } ?? false }
        var given: [PlannedDose] = []
        var day = min(then.adding(-2), lateFrom ?? then)
        while day <= last {
            given += slots(schedule, on: day, filled: isFilled && isLate(day) ? moment.since : nil)
            day = day.adding(1)
        }
        let names = Dictionary(given.map { ($0.name, $0) }) { first, _ in first }
        let open = doses.values.filter { $0.name.schedule == schedule.id && isOpen($0, moment) }
        let isOver = !schedule.isEnabled || schedule.rule == .asNeeded
        let unwanted = open.filter { dose in
            guard dose.second > moment.since else { return names[dose.name] == nil && givesWay(dose, given, moment) }
            if let slot = names[dose.name] {
                return slot.second > moment.since && slot.product != dose.product && isTaken(slot, moment)
            }
            let isLooked = dose.name.day <= last || isOver || schedule.endsOn.map { $0 < dose.name.day } ?? false
            return isLooked && !staysToday(dose, given, moment)
        }
        for dose in unwanted { cancel(dose, at: moment.now) }
        // Moved or revived together: a slot is free or not before any of them.
        let written = given.filter { slot in
            guard let dose = doses[slot.name] else { return false }
            if isOpen(dose, moment) {
                return dose.second > moment.since && slot.second > moment.since && !dose.isPlanned(as: slot)
            }
            return isCancelledByPlan(dose) && (slot.windowEnd > moment.since || isLate(slot.name.day))
                && !isTaken(slot, moment)
        }
        for slot in written { doses[slot.name] = slot }
        bringBack(schedule, given, moment)
        for slot in given where slot.second > moment.since || isLate(slot.name.day) { make(slot, moment) }
        guard schedules[schedule.id] != nil else { return }
        plannedUntil[schedule.id] = last
        let isDone = isOver || schedule.endsOn.map { $0 <= last } ?? false
        due[schedule.id] = isDone ? nil : schedule.zone.second(of: today.adding(1).days * 86_400)
    }

    /// Nobody has acted on it: it is scheduled, or was missed since.
    private func isOpen(_ dose: PlannedDose, _ moment: Moment) -> Bool {
        let end = dose.windowEnd + DoseRules.graceSeconds
        return dose.status == .scheduled || dose.status == .missed && end > moment.since && end <= moment.now
    }

    /// Its time has come by a mistake: another dose of its slot, which was cancelled for it, is given again.
    private func givesWay(_ dose: PlannedDose, _ given: [PlannedDose], _ moment: Moment) -> Bool {
        given.contains { slot in
            slot.slot == dose.slot && slot.name != dose.name && slot.windowEnd > moment.since
                && doses[slot.name].map(isCancelledByPlan) ?? false
        }
    }

    /// Its slot is given at a time that has passed, and that dose does not come back: nothing else of today is to come, nor
    /// the next one while its window is open.
    private func staysToday(_ dose: PlannedDose, _ given: [PlannedDose], _ moment: Moment) -> Bool {
        let others = given.filter { $0.product == dose.product && $0.name != dose.name }
        let isPast = others.contains { slot in
            slot.slot == dose.slot && slot.second <= moment.since
                && !(slot.windowEnd > moment.since && doses[slot.name].map(isCancelledByPlan) ?? false)
        }
        return isPast && !others.contains { $0.second > moment.since && $0.second <= dose.windowEnd }
    }

    /// What stayed today before a mistake took it away: the new time has had no dose today. Of several of a slot, the one
    /// that was taken away last.
    private mutating func bringBack(_ schedule: PlannedSchedule, _ given: [PlannedDose], _ moment: Moment) {
        let names = Set(given.map(\.name))
        let lost = doses.values.filter { dose in
            dose.name.schedule == schedule.id && !names.contains(dose.name) && isCancelledByPlan(dose)
                && dose.second > moment.since && staysToday(dose, given, moment)
                && !doses.values.contains {
                    $0.slot == dose.slot && (names.contains($0.name) || !isCancelledByPlan($0))
                }
        }
        let ordered = lost.map { (cancelledAt[$0.name] ?? 0, $0.second, $0) }.sorted { ($1.0, $1.1) < ($0.0, $0.1) }
        for (_, _, dose) in ordered where !hasDose(dose.slot) {
            doses[dose.name]?.status = .scheduled
            doses[dose.name]?.isCancelledByPlan = false
        }
    }

    private func isCancelledByPlan(_ dose: PlannedDose) -> Bool { dose.status == .cancelled && dose.isCancelledByPlan }

    private func hasDose(_ slot: [String]) -> Bool {
        doses.values.contains { $0.slot == slot && $0.status != .cancelled }
    }

    /// A dose has the slot, or is asked for instead of one ahead: of a schedule that has another time by now, or is
    /// paused or gone.
    private func isTaken(_ slot: PlannedDose, _ moment: Moment) -> Bool {
        hasDose(slot.slot)
            || slot.second > moment.since
                && doses.values.contains { dose in
                    let giver = schedules[dose.name.schedule]
                    return dose.name.schedule != slot.name.schedule && dose.status != .cancelled
                        && (dose.product, dose.name.day, dose.name.minute)
                            == (slot.product, slot.name.day, slot.name.minute)
                        && !(giver?.gives(dose.name.minute) ?? false)
                }
    }

    private mutating func make(_ slot: PlannedDose, _ moment: Moment) {
        if doses[slot.name] == nil, !isTaken(slot, moment) { doses[slot.name] = slot }
    }

    /// Makes a dose whose time has passed, or brings it back where a plan took it away.
    private mutating func fill(_ slot: PlannedDose) {
        if doses[slot.name].map(isCancelledByPlan) ?? true, !hasDose(slot.slot) { doses[slot.name] = slot }
    }
}
