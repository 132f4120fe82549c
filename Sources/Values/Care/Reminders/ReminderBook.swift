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
    /// The days that differ from their rule.
    package internal(set) var exceptions: [ReminderDay: ReminderException] = [:]
    /// What devices call rules, living or deleted: to their ids.
    package internal(set) var aliases: [Identifier: Identifier] = [:]
    /// Rules that were deleted, by id.
    package internal(set) var tombstones: [Identifier: ReminderTombstone] = [:]
    /// The whole stream.
    package internal(set) var events: [ReminderEvent] = []
    /// Days on which everything is taken that a reminder is about.
    package var doneDays: Set<ReminderDay> = []
    /// The user's zone.
    package internal(set) var home: ZoneTransitions
    let zones: [String: ZoneTransitions]
    /// The user's schedules, by id; nil: nobody knows them here, and rules may be linked to any.
    package internal(set) var schedules: [Identifier: ReminderSchedule]?
    /// Minutes after midnight that presets stand for, where they are the user's own; nil: not known here.
    package var presetTimes: [String: Int]?
    var revisions: [Identifier: [Int64: Revision]] = [:]
    var stored: [Identifier: Stored] = [:]
    /// Rules that were made under a temporary name, as they were then.
    var queued: [Identifier: Queued] = [:]
    /// What devices asked for and found done, by rule, in order.
    var found: [Identifier: [Found]] = [:]

    /// Which device made each revision of a day.
    var decisions: [ReminderDay: [Int64: Identifier?]] = [:]

    struct Revision: Sendable {
        let fields: ReminderFields
        let device: Identifier?
        /// When another revision took its place.
        var until: Int?
    }

    struct Queued: Sendable {
        let fields: ReminderFields
        let device: Identifier?
        let at: Int
        /// Whether a create without a name was found to be it.
        var isPosted = false

        /// Whether a create by this device may be the queue's: where one of them names no device, nobody knows.
        func isOf(_ poster: Identifier?) -> Bool { device == nil || poster == nil || device == poster }
    }

    struct Found: Sendable {
        let rev: Int64
        let device: Identifier
        let fields: ReminderFields
    }

    /// Who acts, and when.
    struct Cause {
        var key: Identifier?
        var device: Identifier?
        let now: Int
    }

    struct Stored: Sendable {
        let action: ReminderAction
        let answer: ReminderAnswer
        let pending: Pending?
    }

    /// A conflict that a person may still decide.
    struct Pending: Sendable {
        let action: ReminderAction
        let rev: Int64
        /// What a merge takes of it.
        var taken = ReminderFields()
        /// The rule that was deleted.
        var gone: ReminderRule?
    }

    /// Nobody's reminders yet.
    package init(
        home: ZoneTransitions, zones: [ZoneTransitions], schedules: [Identifier: ReminderSchedule]? = nil,
        presetTimes: [String: Int]? = nil
    ) {
        self.home = home
        (self.schedules, self.presetTimes) = (schedules, presetTimes)
        self.zones = Dictionary(zones.map { ($0.name, $0) }) { first, _ in first }
    }

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
        let cause = Cause(key: envelope.key, device: envelope.device, now: now)
        let outcome = perform(envelope.action, cause, newID: newID)
        var answer = ReminderAnswer(key: envelope.key, status: outcome.status, code: outcome.code)
        answer.rule = outcome.rule
        answer.conflict = outcome.conflict
        answer.position = top
        guard outcome.isKept else { return answer }
        stored[envelope.key] = Stored(action: envelope.action, answer: answer, pending: outcome.pending)
        return answer
    }

    /// The user is in another zone: rules that follow are too.
    package mutating func travel(to zone: ZoneTransitions, at now: Int) {
        home = zone
        for (id, schedule) in schedules ?? [:] where schedule.fields[.zoneMode] == .text("follow") {
            schedules?[id]?.fields[.zone] = .text(zone.name)
        }
        for rule in rules.values.sorted(by: { $0.id < $1.id }) where rule.fields[.zoneMode] == .text("follow") {
            if rule.fields[.zone] != .text(zone.name) { write(rule, Cause(now: now)) }
        }
    }

    func zone(of rule: ReminderRule) -> ZoneTransitions { zones[rule.zone] ?? home }

    private mutating func perform(_ action: ReminderAction, _ cause: Cause, newID: Identifier) -> Outcome {
        switch action {
        case .create(let id, let clientID, let fields): create(id, clientID, fields, cause, newID: newID)
        case .update(let id, let changes, let base): update(id, changes, base, cause)
        case .delete(let id, let base): delete(id, base, cause)
        case .snooze(let day, let until, let minutes): snooze(day, until, minutes, cause)
        case .set(let day, let change, let base): set(day, change, base, cause)
        case .resolve(let target, let choice, let merged, let base): resolve(target, choice, merged, base, cause)
        }
    }

    /// What became of an action.
    struct Outcome {
        let status: CareStatus
        var code: String?
        var rule: ReminderRule?
        var conflict: ReminderConflict?
        var pending: Pending?
        /// False: it is about what nobody knows, and a repeat is judged anew.
        var isKept = true

        static func rejected(_ code: String) -> Outcome { Outcome(status: .rejected, code: code) }
    }

    // MARK: Writing

    /// The rule with its next revision, told.
    mutating func write(_ rule: ReminderRule, _ cause: Cause) {
        var rule = rule
        let before = rules[rule.id]
        if let before {
            rule.rev = before.rev + 1
            revisions[rule.id]?[before.rev]?.until = cause.now
        }
        rule.fields = following(rule.fields)
        rules[rule.id] = rule
        revisions[rule.id, default: [:]][rule.rev] = Revision(fields: rule.fields, device: cause.device)
        if let name = rule.clientID { aliases[name] = rule.id }
        tombstones[rule.id] = nil
        tell(before == nil ? .created(rule) : .updated(rule), cause)
    }

    /// A rule that follows its user is in the user's zone, whatever zone was wished for.
    func following(_ fields: ReminderFields) -> ReminderFields {
        guard fields[.zoneMode] == .text("follow") else { return fields }
        return fields.setting(ReminderFields([.zone: .text(home.name)]), [.zone])
    }

    mutating func tell(_ change: ReminderEvent.Change, _ cause: Cause) {
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

    /// Whether anybody but the device itself changed a rule after a revision.
    func isChanged(_ rule: ReminderRule, since rev: Int64, _ cause: Cause) -> Bool {
        guard rev < rule.rev else { return false }
        return (rev + 1...rule.rev).contains { later in
            guard let device = revisions[rule.id]?[later]?.device else { return true }
            return device != cause.device
        }
    }

    /// What a device knew of a rule when it acted: the rule of the revision that it names, with what the device itself has
    /// changed since, or asked for and found done. So a queue may name one revision for several changes, and none of them
    /// conflicts with another.
    func base(_ rev: Int64?, of rule: ReminderRule, _ cause: Cause) -> ReminderMerge.Base {
        guard let rev else { return .none }
        guard let known = revisions[rule.id], var seen = known[rev]?.fields else { return .unknown }
        guard let device = cause.device, rev < rule.rev else { return .known(seen) }
        for later in rev + 1...rule.rev {
            if let after = known[later], let before = known[later - 1], after.device == device {
                seen = seen.setting(after.fields, after.fields.differing(from: before.fields))
            }
            for done in found[rule.id, default: []] where done.rev == later && done.device == device {
                seen = seen.setting(done.fields, done.fields.names)
            }
        }
        return .known(seen)
    }
}
