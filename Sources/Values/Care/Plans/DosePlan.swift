/// The reference model of the planner: which doses schedules have, after each change of them.
///
/// It has no clock: each call is one transaction at the second that the caller gives. It follows the rules of
/// sql/functions/58_care_plan.sql from their words, a day at a time.
package struct DosePlan: Sendable {
    /// Days after today that are planned.
    package static let horizon = 14
    /// Days back for which a new schedule is filled at most.
    package static let past = 90

    /// All doses, by what their ids are made of.
    package private(set) var doses: [PlannedDose.Name: PlannedDose] = [:]
    /// All schedules.
    package private(set) var schedules: [String: PlannedSchedule] = [:]
    /// Products that give no new doses.
    private var archived: Set<String> = []
    private var plannedUntil: [String: LocalDate] = [:]
    /// When the job is to plan a schedule again: when its day ends.
    private var due: [String: Int] = [:]

    /// Nothing planned.
    package init() {}

    // MARK: Changes

    /// Writes a schedule that is new, or changes one.
    package mutating func write(_ schedule: PlannedSchedule, at now: Int) {
        let today = schedule.zone.day(at: now)
        if let before = schedules[schedule.id] {
            guard before != schedule else { return }
            fillGap(before, at: now)
            schedules[schedule.id] = schedule
            plan(schedule, at: now, lateFrom: nil)
            if let end = before.startsOn, let start = schedule.startsOn {
                fill(schedule, from: start, until: end, at: now)
            }
        } else {
            schedules[schedule.id] = schedule
            plan(schedule, at: now, lateFrom: schedule.startsOn.map { max($0, today.adding(-Self.past)) })
        }
    }

    /// Deletes a schedule: nothing lies ahead any more.
    package mutating func delete(_ id: String, at now: Int) {
        guard var schedule = schedules.removeValue(forKey: id) else { return }
        schedule.isEnabled = false
        plan(schedule, at: now, lateFrom: nil)
        plannedUntil[id] = nil
        due[id] = nil
    }

    /// The items of a stack change.
    package mutating func restock(_ id: String, _ products: [String], at now: Int) {
        guard var schedule = schedules[id], schedule.isStack else { return }
        schedule.products = products
        schedules[id] = schedule
        goOn(schedule, at: now)
    }

    /// A product is archived, or comes back.
    package mutating func archive(_ product: String, _ isArchived: Bool, at now: Int) {
        guard archived.contains(product) != isArchived else { return }
        if isArchived { archived.insert(product) } else { archived.remove(product) }
        for schedule in schedules.values where schedule.products.contains(product) { goOn(schedule, at: now) }
    }

    /// The job: every schedule has its horizon.
    package mutating func catchUp(at now: Int) {
        for schedule in schedules.values where due[schedule.id].map({ $0 <= now }) ?? false { goOn(schedule, at: now) }
    }

    /// A person, or the job of missed doses, sets a status.
    package mutating func set(_ name: PlannedDose.Name, _ status: DoseStatus) {
        guard var dose = doses[name], dose.status != status else { return }
        let isBack = dose.status == .cancelled
        dose.status = status
        dose.isCancelledByPlan = false
        doses[name] = dose
        guard isBack, schedules[name.schedule] != nil else { return }
        for other in doses.values where other.slot == dose.slot && other.name != name && other.status == .scheduled {
            cancel(other)
        }
    }

    // MARK: Planning

    private func slots(_ schedule: PlannedSchedule, on day: LocalDate) -> [PlannedDose] {
        schedule.slots(on: day).filter { !archived.contains($0.product) }
    }

    private mutating func cancel(_ dose: PlannedDose) {
        doses[dose.name]?.status = .cancelled
        doses[dose.name]?.isCancelledByPlan = true
    }

    private mutating func goOn(_ schedule: PlannedSchedule, at now: Int) {
        plan(schedule, at: now, lateFrom: unplanned(schedule, at: now))
    }

    /// The first day that no plan has seen.
    private func unplanned(_ schedule: PlannedSchedule, at now: Int) -> LocalDate? {
        plannedUntil[schedule.id].map { max($0.adding(1), schedule.zone.day(at: now).adding(-Self.past)) }
    }

    /// What the schedule gave until now, on days that no job came by for.
    private mutating func fillGap(_ schedule: PlannedSchedule, at now: Int) {
        guard var day = unplanned(schedule, at: now) else { return }
        while day <= schedule.zone.day(at: now) {
            for slot in slots(schedule, on: day) where slot.second <= now { fill(slot) }
            day = day.adding(1)
        }
    }

    /// A schedule that begins earlier than it did: what it gave until now, before its former start.
    private mutating func fill(_ schedule: PlannedSchedule, from start: LocalDate, until end: LocalDate, at now: Int) {
        let today = schedule.zone.day(at: now)
        var day = max(start, today.adding(-Self.past))
        while day < end, day <= today {
            for slot in slots(schedule, on: day) where slot.second <= now { fill(slot) }
            day = day.adding(1)
        }
    }

    private mutating func plan(_ schedule: PlannedSchedule, at now: Int, lateFrom: LocalDate?) {
        let today = schedule.zone.day(at: now)
        let last = max(today.adding(Self.horizon), plannedUntil[schedule.id] ?? today)
        var given: [PlannedDose] = []
        var day = min(today.adding(-2), lateFrom ?? today)
        while day <= last {
            given += slots(schedule, on: day)
            day = day.adding(1)
        }
        let names = Dictionary(given.map { ($0.name, $0) }) { first, _ in first }
        let ahead = doses.values.filter { $0.name.schedule == schedule.id && isAhead($0, now) }
        let isOver = !schedule.isEnabled || schedule.rule == .asNeeded
        let unwanted = ahead.filter { dose in
            if let slot = names[dose.name] {
                return slot.second > now && slot.product != dose.product && isTaken(slot)
            }
            return dose.name.day <= last || isOver || schedule.endsOn.map { $0 < dose.name.day } ?? false
        }
        for dose in unwanted { cancel(dose) }
        // Moved or revived together: a slot is free or not before any of them.
        let wanted = given.filter { slot in slot.second > now || lateFrom.map { $0 <= slot.name.day } ?? false }
        let written = wanted.filter { slot in
            guard let dose = doses[slot.name] else { return false }
            return isAhead(dose, now) && slot.second > now
                || isCancelledByPlan(dose) && !isTaken(slot) && !unwanted.contains { $0.name == dose.name }
        }
        for slot in written { doses[slot.name] = slot }
        for slot in wanted { make(slot) }
        guard schedules[schedule.id] != nil else { return }
        plannedUntil[schedule.id] = last
        let isDone = isOver || schedule.endsOn.map { $0 <= last } ?? false
        due[schedule.id] = isDone ? nil : schedule.zone.second(of: today.adding(1).days * 86_400)
    }

    private func isAhead(_ dose: PlannedDose, _ now: Int) -> Bool { dose.status == .scheduled && dose.second > now }

    private func isCancelledByPlan(_ dose: PlannedDose) -> Bool { dose.status == .cancelled && dose.isCancelledByPlan }

    private func isTaken(_ slot: PlannedDose) -> Bool {
        doses.values.contains { $0.slot == slot.slot && $0.status != .cancelled }
    }

    private mutating func make(_ slot: PlannedDose) {
        if doses[slot.name] == nil, !isTaken(slot) { doses[slot.name] = slot }
    }

    /// Makes a dose whose time has passed, or brings it back where a plan took it away.
    private mutating func fill(_ slot: PlannedDose) {
        if doses[slot.name].map(isCancelledByPlan) ?? true, !isTaken(slot) { doses[slot.name] = slot }
    }
}
