import Care
import JSON
import TestSupport

/// A history of one person's reminders as other languages read it: actions of three devices, and what each must answer and
/// leave. Rules that the server names are known by the names that devices have for them.
struct ReminderVector {
    /// The seed of its history.
    let seed: UInt64
    private var random: SeededRandom
    private var book = ReminderBook(home: ReminderWeek.zones[0], zones: ReminderWeek.zones)
    private var conflicts: [Identifier] = []
    private var now: Int

    /// The history of a seed.
    init(seed: UInt64) {
        self.seed = seed
        random = SeededRandom(seed: seed)
        // March 2026: New York's clocks go forward on the 8th.
        now = 1_772_323_200 + Int.random(in: 0..<900_000, using: &random)
    }

    private mutating func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &random)] }
    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    /// The vector.
    mutating func tree() -> JSONTree {
        var steps: [JSONTree] = []
        for number in 1...40 {
            now += pick([0, 60, 600, 7_200, 40_000])
            if chance(5) {
                let zone = pick(ReminderWeek.zones)
                book.travel(to: zone, at: now)
                steps.append(told([.init("at", .integer(Int64(now))), .init("zone", .string(zone.name))]))
                continue
            }
            let envelope = ReminderEnvelope(
                Identifier("k\(number)"), device: chance(90) ? pick(["phone", "tablet", "watch"]) : nil, action())
            let answer = book.apply(envelope, at: now, newID: Identifier("made-\(number)"))
            if answer.status == .conflict { conflicts.append(answer.key) }
            steps.append(
                told([
                    .init("at", .integer(Int64(now))), .init("key", .string(envelope.key.text)),
                    .init("device", .text(envelope.device?.text)), .init("action", Self.tree(envelope.action)),
                    .init("newId", .string("made-\(number)")), .init("answer", Self.brief(answer)),
                ]))
        }
        return .object([.init("seed", .string(String(seed))), .init("steps", .array(steps))])
    }

    // MARK: Steps

    private mutating func action() -> ReminderAction {
        let known = book.rules.values.map { rule in rule.clientID ?? rule.id }.sorted() + book.tombstones.keys.sorted()
        guard !known.isEmpty, !(book.rules.count < 3 && chance(35)) else { return create() }
        let name = chance(97) ? pick(known) : "nothing"
        let rule = book.rule(name)
        let base = chance(25) ? nil : rule.map { max(0, $0.rev - Int64(pick([0, 0, 1, 1, 2, 3]))) } ?? 1
        let today = now / 86_400
        switch Int.random(in: 0..<20, using: &random) {
        case 0: return create()
        case 1, 2: return .delete(name, base: base)
        case 3, 4:
            let day = ReminderDay(rule?.id ?? name, LocalDate(days: today + pick([-1, 0, 0, 1, 3])))
            return .snooze(
                day, until: chance(30) ? now + pick([600, 20_000, 90_000]) : nil, minutes: pick([nil, 5, 60]))
        case 5, 6, 7:
            let day = LocalDate(days: today + pick([0, 1, 2]))
            let change = pick([
                ReminderDayChange.cancel, .bringBack, .move(day.days * 86_400 + pick([480, 500, 1_500]) * 60),
                .move(nil),
            ])
            let rev = rule.flatMap { book.exceptions[ReminderDay($0.id, day)]?.rev } ?? 0
            let seen = chance(40) ? nil : max(0, rev - Int64(pick([0, 1, 1, 2])))
            return .set(ReminderDay(rule?.id ?? name, day), change, base: seen)
        case 8...11 where !conflicts.isEmpty:
            let choice = pick(ConflictChoice.allCases)
            let merged = choice == .merge && chance(40) ? changes() : nil
            return .resolve(pick(conflicts), choice, merged: merged, base: chance(70) ? nil : base)
        default: return .update(name, changes(), base: base)
        }
    }

    private mutating func create() -> ReminderAction {
        var fields = ReminderFields([
            .product: .text(pick(["p1", "p2"])), .time: .number(480), .repeats: .text("daily"),
        ])
        if chance(20) { (fields[.product], fields[.stack]) = (.absent, .text("s1")) }
        if chance(30) { fields = fields.setting(changes(), [.time, .repeats, .days]) }
        if fields[.time] == .absent { fields[.time] = .number(480) }
        if fields[.repeats] == .absent { (fields[.repeats], fields[.days]) = (.text("daily"), .absent) }
        if chance(50) { fields[.zoneMode] = .text(pick(["follow", "fixed"])) }
        if chance(20) { fields[.zone] = .text(pick(ReminderWeek.zones).name) }
        let number = Int.random(in: 0..<6, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0, 1: return .create(id: Identifier("tmp-\(number)"), clientID: nil, fields)
        case 2: return .create(id: Identifier("rule-\(number)"), clientID: nil, fields)
        default: return .create(id: nil, clientID: Identifier("client-\(number)"), fields)
        }
    }

    private mutating func changes() -> ReminderFields {
        var fields = ReminderFields()
        for _ in 0..<pick([1, 1, 2, 3]) {
            switch Int.random(in: 0..<9, using: &random) {
            case 0, 1: fields[.time] = .number(pick([480, 490, 500]))
            case 2: fields[.label] = pick([.absent, .text("a"), .text("b")])
            case 3: fields[.enabled] = .flag(chance(50))
            case 4: fields[.snoozeMinutes] = pick([.absent, .number(5), .number(15)])
            case 5:
                let days = pick([[1, 2, 3], [2, 4], []])
                fields[.repeats] = .text(days.isEmpty ? pick(["daily", "weekdays", "custom"]) : "custom")
                fields[.days] = days.isEmpty ? .absent : .days(days)
            case 6: fields[pick([.product, .stack])] = .text(pick(["p1", "s1"]))
            case 8: fields[.zone] = .text(pick(ReminderWeek.zones).name)
            default: fields[.zoneMode] = .text(pick(["follow", "fixed"]))
            }
        }
        if fields[.product] != .absent, fields[.stack] != .absent { fields[.stack] = .absent }
        return fields
    }

    // MARK: As JSON

    private func told(_ members: [JSONTree.Member]) -> JSONTree {
        let rules = book.rules.values.sorted { $0.id < $1.id }.map { rule in
            JSONTree.object([
                .init("id", .string(rule.id.text)), .init("clientId", .text(rule.clientID?.text)),
                .init("rev", .integer(rule.rev)), .init("fields", .object(rule.fields.all)),
                .init(
                    "next",
                    .array(
                        book.upcoming(rule, after: now, 3).map {
                            .array([Self.day($0.day), .integer(Int64($0.start))])
                        })
                ),
            ])
        }
        let days = book.exceptions.sorted { ($0.key.rule, $0.key.day) < ($1.key.rule, $1.key.day) }.map {
            day, exception in
            JSONTree.object([
                .init("rule", .string(day.rule.text)), .init("day", Self.day(day.day)),
                .init("isCancelled", .bool(exception.isCancelled)), .init("movedTo", Self.second(exception.movedTo)),
                .init("kept", Self.second(exception.kept)),
                .init("snoozedUntil", Self.second(exception.snoozedUntil)),
                .init("snoozes", .integer(Int64(exception.snoozes))), .init("rev", .integer(exception.rev)),
            ])
        }
        return .object(members + [.init("rules", .array(rules)), .init("days", .array(days))])
    }

    private static func day(_ day: LocalDate) -> JSONTree { .integer(Int64(day.days)) }
    private static func second(_ second: Int?) -> JSONTree { second.map { .integer(Int64($0)) } ?? .null }
    private static func rev(_ rev: Int64?) -> JSONTree { rev.map { .integer($0) } ?? .null }

    private static func tree(_ action: ReminderAction) -> JSONTree {
        var members: [JSONTree.Member]
        switch action {
        case .create(let id, let clientID, let fields):
            members = [
                .init("kind", .string("create")), .init("id", .text(id?.text)),
                .init("clientId", .text(clientID?.text)),
                .init("fields", .object(fields.members)),
            ]
        case .update(let id, let fields, let base):
            members = [
                .init("kind", .string("update")), .init("id", .string(id.text)),
                .init("fields", .object(fields.members)), .init("base", rev(base)),
            ]
        case .delete(let id, let base):
            members = [.init("kind", .string("delete")), .init("id", .string(id.text)), .init("base", rev(base))]
        case .snooze(let day, let until, let minutes):
            members = [
                .init("kind", .string("snooze")), .init("rule", .string(day.rule.text)),
                .init("day", Self.day(day.day)),
                .init("until", second(until)), .init("minutes", second(minutes)),
            ]
        case .set(let day, let change, let base):
            let told: [JSONTree.Member] =
                switch change {
                case .cancel: [.init("kind", .string("cancel"))]
                case .bringBack: [.init("kind", .string("bringBack"))]
                case .move(let wall): [.init("kind", .string("move")), .init("to", second(wall))]
                }
            members = [
                .init("kind", .string("set")), .init("rule", .string(day.rule.text)), .init("day", Self.day(day.day)),
                .init("change", .object(told)), .init("base", rev(base)),
            ]
        case .resolve(let target, let choice, let merged, let base):
            members = [
                .init("kind", .string("resolve")), .init("of", .string(target.text)),
                .init("choice", .string(choice.rawValue)),
                .init("merged", merged.map { .object($0.members) } ?? .null), .init("base", rev(base)),
            ]
        }
        return .object(members)
    }

    private static func brief(_ answer: ReminderAnswer) -> JSONTree {
        .object([
            .init("status", .string(answer.status.rawValue)), .init("code", .text(answer.code)),
            .init("rule", .text(answer.rule?.id.text)), .init("rev", rev(answer.rule?.rev)),
            .init("fields", .array((answer.conflict?.fields ?? []).map(\.tree))),
            .init("serverRev", rev(answer.conflict?.serverRev)),
        ])
    }
}
