/// The reference model of reminders: one user's rules, what becomes of each action on them, and what devices are told.
///
/// It has no clock: each call is one transaction at the second that the caller gives. It follows the rules of
/// sql/functions/73_care_reminder_act.sql and its neighbours from their words.
package struct ReminderBook: Sendable {
    /// Seconds in which an equal rule without a key is the one that is there: a day.
    package static let twinSeconds = 86_400
    /// Seconds in which a rule that a queue made is posted once more, without a name.
    package static let postSeconds = 600

    /// The rules, by id.
    package internal(set) var rules: [Identifier: ReminderRule] = [:]
    /// What devices call rules, living or deleted: to their ids.
    package internal(set) var aliases: [Identifier: Identifier] = [:]
    /// Rules that were deleted, by id.
    package internal(set) var tombstones: [Identifier: ReminderTombstone] = [:]
    /// The whole stream.
    package internal(set) var events: [ReminderEvent] = []
    /// The user's zone, schedules and presets.
    var regimen: Regimen
    var days = ReminderDays()
    var history = ReminderHistory()
    var stored: [Identifier: StoredReminder] = [:]
    /// Rules that were made under a temporary name, as they were then.
    var queued: [Identifier: QueuedReminder] = [:]

    /// Nobody's reminders yet.
    package init(
        home: ZoneTransitions, zones: [ZoneTransitions], schedules: [Identifier: ReminderSchedule]? = nil,
        presetTimes: [String: Int]? = nil
    ) {
        regimen = Regimen(home: home, zones: zones, schedules: schedules, presetTimes: presetTimes)
    }

    /// The user's zone.
    package var home: ZoneTransitions { regimen.home }

    /// The user's schedules, by id; nil: nobody knows them here.
    package var schedules: [Identifier: ReminderSchedule]? { regimen.schedules }

    /// Minutes after midnight that presets stand for, where they are the user's own; nil: not known here.
    package var presetTimes: [String: Int]? {
        get { regimen.presetTimes }
        set { regimen.presetTimes = newValue }
    }

    /// The user's stacks with their products; nil: not known here.
    package var stacks: [Identifier: Set<Identifier>]? {
        get { regimen.stacks }
        set { regimen.stacks = newValue }
    }

    /// The days that differ from their rule.
    package var exceptions: [ReminderDay: ReminderException] { days.exceptions }

    /// The last event's number.
    package var top: Int64 { events.last?.offset ?? 0 }

    /// The keys of all actions that ended in a conflict.
    package var conflictKeys: Set<Identifier> {
        Set(stored.values.filter { $0.answer.status == .conflict }.map(\.answer.key))
    }

    // MARK: Changes

    /// Performs an action, or gives a repeat its first answer. `newID` names a rule that the server has to name.
    package mutating func apply(_ envelope: ReminderEnvelope, at now: Int, newID: Identifier) -> ReminderAnswer {
        if let known = stored[envelope.key] {
            guard known.action == envelope.action else {
                return ReminderAnswer(key: envelope.key, status: .rejected, code: "key_reused")
            }
            var answer = known.answer
            answer.isReplayed = true
            return answer
        }
        let cause = ReminderCause(key: envelope.key, device: envelope.device, now: now)
        let outcome = perform(envelope.action, cause, newID: newID)
        var answer = ReminderAnswer(key: envelope.key, status: outcome.status, code: outcome.code)
        answer.rule = outcome.rule
        answer.conflict = outcome.conflict
        answer.position = top
        stored[envelope.key] = StoredReminder(action: envelope.action, answer: answer, pending: outcome.pending)
        return answer
    }

    /// The user is in another zone: rules that follow are too.
    package mutating func travel(to zone: ZoneTransitions, at now: Int) {
        regimen.travel(to: zone)
        for rule in rules.values.sorted(by: { $0.id < $1.id }) where rule.fields[.zoneMode] == .text("follow") {
            if rule.fields[.zone] != .text(zone.name) { write(rule, ReminderCause(now: now)) }
        }
    }

    /// Medicines that are stopped from now on, and no others: rules fall silent, or speak again.
    package mutating func stop(_ targets: Set<Identifier>, at now: Int) {
        let before = regimen
        regimen.stopped = targets
        for rule in rules.values.sorted(by: { $0.id < $1.id })
        where before.isStopped(rule.fields) != regimen.isStopped(rule.fields) {
            write(rule, ReminderCause(now: now))
        }
    }

    private mutating func perform(
        _ action: ReminderAction, _ cause: ReminderCause, newID: Identifier
    ) -> ReminderOutcome {
        switch action {
        case .create(let id, let clientID, let fields): create(id, clientID, fields, cause, newID: newID)
        case .update(let id, let changes, let base): update(id, changes, base, cause)
        case .delete(let id, let base): delete(id, base, cause)
        case .snooze(let day, let until, let minutes): snooze(day, until, minutes, cause)
        case .set(let day, let change, let base): set(day, change, base, cause)
        case .resolve(let target, let choice, let merged, let base): resolve(target, choice, merged, base, cause)
        }
    }

    // MARK: Writing

    /// The rule with its next revision, told.
    mutating func write(_ rule: ReminderRule, _ cause: ReminderCause) {
        var rule = rule
        let before = rules[rule.id]
        if let before { rule.rev = before.rev + 1 }
        rule.fields = regimen.following(rule.fields)
        rules[rule.id] = rule
        history.add(rule.fields, rev: rule.rev, of: rule.id, by: cause.device)
        if let name = rule.clientID { aliases[name] = rule.id }
        tombstones[rule.id] = nil
        tell(before == nil ? .created(rule) : .updated(rule), cause)
        guard let before else { return }
        let target: [ReminderField] = [.product, .stack, .schedule]
        if target.contains(where: { rule.fields[$0] != before.fields[$0] }) { regimen.silent.remove(rule.id) }
        for day in days.keep(from: before, to: rule, at: cause.now, in: regimen) {
            if let exception = days.exceptions[day] { tell(.occurrence(day, exception), cause) }
        }
    }

    mutating func tell(_ change: ReminderEvent.Change, _ cause: ReminderCause) {
        events.append(ReminderEvent(offset: top + 1, key: cause.key, change: change))
    }

    // MARK: Finding

    /// The rule of an id, or of what its device called it.
    package func rule(_ name: Identifier) -> ReminderRule? {
        rules[name] ?? aliases[name].flatMap { rules[$0] }
    }

    func tombstone(_ name: Identifier) -> ReminderTombstone? {
        tombstones[aliases[name] ?? name]
    }
}
