import Care
import TestSupport

/// A week of three devices of one person, each mostly without a network, and the server that they come back to.
struct ReminderWeek {
    private(set) var book: ReminderBook
    private(set) var phones = ["phone", "tablet", "watch"].map { ReminderPhone($0) }
    /// What went wrong.
    private(set) var faults: [String] = []
    /// Conflicts that had to be, by what the devices knew and the server had.
    private(set) var expected: Set<Identifier> = []
    private(set) var counts: [String: Int] = [:]
    private var random: SeededRandom
    private var now = 1_772_352_000
    private let end: Int
    private var made = 0
    private var sent: Set<Identifier> = []
    /// What each device changed itself: rule, revision and fields.
    private var own: [Identifier: [(rule: Identifier, rev: Int64, fields: ReminderFields)]] = [:]

    /// What conflicts about updates leave to decide.
    private var open: [Identifier: OpenConflict] = [:]

    /// How each rule was when it was last there, and at each revision.
    private var last: [Identifier: ReminderFields] = [:]
    private var history: [Identifier: [Int64: ReminderFields]] = [:]

    private struct OpenConflict {
        let rule: Identifier
        let rev: Int64
        let wanted: ReminderFields
        let taken: ReminderFields
    }

    static let zones = [
        ZoneTransitions("UTC", offset: 0),
        // 2026-03-08 07:00Z.
        ZoneTransitions("America/New_York", offset: -18_000, transitions: [.init(at: 1_772_953_200, to: -14_400)]),
        ZoneTransitions("Asia/Tokyo", offset: 32_400),
    ]

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        book = ReminderBook(home: Self.zones[0], zones: Self.zones, schedules: [:], presetTimes: [:])
        end = now + 7 * 86_400
    }

    private mutating func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &random)] }
    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    // MARK: The week

    mutating func run() {
        while now < end {
            now += pick([600, 3_600, 7_200, 20_000, 40_000])
            let device = Int.random(in: 0..<phones.count, using: &random)
            for _ in 0..<pick([0, 1, 1, 2, 3]) { edit(device) }
            if chance(35) { connect(device) }
            if chance(3) {
                let top = Int(book.top)
                book.travel(to: pick(Self.zones), at: now)
                note(book.events[top...], by: nil)
            }
            if chance(6), let id = book.schedules?.keys.sorted().randomElement(using: &random) { replan(id) }
        }
        var rounds = 0
        repeat {
            for device in phones.indices.shuffled(using: &random) { connect(device) }
            rounds += 1
        } while rounds < 100 && phones.contains { !$0.queue.isEmpty || !$0.dialogs.isEmpty || $0.position != book.top }
        if rounds == 100 { faults.append("no end comes") }
        judge()
    }

    private mutating func count(_ name: String) { counts[name, default: 0] += 1 }

    // MARK: Editing

    private mutating func edit(_ device: Int) {
        let shown = phones[device].shownRules.values.sorted { $0.id < $1.id }
        guard !shown.isEmpty, !(shown.count < 3 && chance(30)) else { return create(device) }
        let rule = pick(shown)
        // A revision that the device knows; of a rule that it made itself, the first.
        let known = phones[device].rules[rule.id]
        let isForced = chance(15)
        let base = isForced ? nil : known?.rev ?? (rule.id.text.hasPrefix("tmp-") ? nil : 1)
        switch Int.random(in: 0..<12, using: &random) {
        case 0: phones[device].act(.delete(rule.id, base: base), on: known)
        case 1: phones[device].act(.snooze(day(rule), until: nil, minutes: pick([nil, 5, 60])))
        case 2:
            let change = pick([ReminderDayChange.cancel, .bringBack, .move(1_772_400_000 + 600 * pick([0, 1, 2]))])
            let named = day(rule)
            let seen = chance(60) ? phones[device].exceptions[named]?.rev ?? 0 : nil
            phones[device].act(.set(named, change, base: seen))
        default:
            var changes = ReminderFields()
            // The time of one that is linked is changed at its schedule.
            for _ in 0..<pick([1, 1, 2]) { change(&changes, only: rule.fields[.schedule] == .absent ? 0..<6 : 2..<5) }
            // Some send the whole object that they show.
            if chance(20) {
                changes = rule.fields.setting(changes, changes.names)
                // One that was made by a preset has no time before the server has answered: null says nothing of it.
                let said = changes.names.filter { $0 != .time || changes[.time] != .absent }
                changes = ReminderFields().setting(changes, said)
            }
            phones[device].act(.update(rule.id, changes, base: base), on: known)
        }
    }

    private mutating func change(_ fields: inout ReminderFields, only these: Range<Int> = 0..<6) {
        switch Int.random(in: these, using: &random) {
        case 0, 1: fields[.time] = .number(pick([480, 490, 500, 510]))
        case 2: fields[.label] = pick([.absent, .text("a"), .text("b")])
        case 3: fields[.enabled] = .flag(chance(50))
        case 4: fields[.snoozeMinutes] = .number(pick([5, 10, 15]))
        default:
            let days = pick([[1], [2, 4], []])
            fields[.repeats] = .text(days.isEmpty ? "daily" : "custom")
            fields[.days] = days.isEmpty ? .absent : .days(days)
        }
    }

    private mutating func day(_ rule: ReminderRule) -> ReminderDay {
        ReminderDay(rule.id, LocalDate(days: now / 86_400 + pick([0, 1, 2])))
    }

    private mutating func create(_ device: Int) {
        made += 1
        var fields = ReminderFields([
            .product: .text("p\(made)"), .appliesTo: .text("item"), .time: .number(480), .zone: .text("UTC"),
            .zoneMode: .text(pick(["follow", "fixed"])), .repeats: .text("daily"), .delivery: .text("local"),
            .enabled: .flag(true),
        ])
        if chance(25) {
            let id = Identifier("plan-\(made)")
            fields[.schedule] = .text(id)
            book.write(ReminderSchedule(fields), id, at: now)
        } else if chance(20) {
            (fields[.preset], fields[.time]) = (.text(pick(["LUNCH", "BEDTIME"])), .absent)
        } else {
            change(&fields)
        }
        if chance(70) {
            phones[device].act(.create(id: Identifier("rule-\(made)"), clientID: nil, fields))
        } else {
            phones[device].act(.create(id: Identifier("tmp-\(made)"), clientID: nil, fields))
        }
    }

    /// Somebody changes a schedule, or deletes it: rules that are linked to it follow.
    private mutating func replan(_ id: Identifier) {
        let top = Int(book.top)
        var schedule = book.schedules?[id]
        switch Int.random(in: 0..<5, using: &random) {
        case 0: schedule = nil
        case 1: schedule?.isEnabled.toggle()
        case 2: schedule?.endsOn = pick([nil, LocalDate(days: now / 86_400 + 2)])
        default: schedule?.fields[.time] = .number(pick([420, 450, 480]))
        }
        book.write(schedule, id, at: now)
        note(book.events[top...], by: nil)
        count("replanned")
    }

    // MARK: The network

    /// A device is back for a while: it sends its queue and decides conflicts, and hears what it has missed.
    private mutating func connect(_ device: Int) {
        if chance(50) { listen(device) }
        var posts: [ReminderFields] = []
        let isWhole = tell(device, &posts)
        for fields in posts {
            // What was made of a schedule that is gone was refused, and is so again.
            let status = post(fields, device).status
            if status != .noop, status != .rejected { faults.append("a rule was made twice") }
        }
        guard isWhole else { return }
        decide(device)
        if phones[device].queue.isEmpty, chance(80) { listen(device) }
    }

    /// Whether the queue came to its end. The code of seed 001 also posts each new rule without a name, before its queue
    /// or after it.
    private mutating func tell(_ device: Int, _ posts: inout [ReminderFields]) -> Bool {
        while let item = phones[device].queue.first {
            if chance(5) { return false }
            if case .create(let id?, nil, let fields) = item.envelope.action, id.text.hasPrefix("tmp-"),
                sent.insert(item.envelope.key).inserted, chance(60)
            {
                if chance(50) { _ = post(fields, device) } else { posts.append(fields) }
            }
            let answer = send(item.envelope, item.seen, device)
            if chance(8) { return false }
            phones[device].hear(answer)
        }
        return true
    }

    private mutating func post(_ fields: ReminderFields, _ device: Int) -> ReminderAnswer {
        let post = ReminderAction.create(id: nil, clientID: nil, fields)
        return send(ReminderEnvelope(phones[device].key(), device: phones[device].name, post), nil, device)
    }

    private mutating func listen(_ device: Int) {
        if chance(20) { return phones[device].read(book) }
        for event in book.events[Int(phones[device].position)...] {
            phones[device].hear(event)
            if chance(5) { phones[device].hear(event) }
            if chance(2) { return }
        }
    }

    private mutating func decide(_ device: Int) {
        while let dialog = phones[device].dialogs.popLast() {
            let choice = dialog.round > 3 ? .acceptServer : pick(ConflictChoice.allCases)
            var merged: ReminderFields?
            if choice == .merge, !dialog.conflict.fields.isEmpty, chance(50) {
                let field = pick(dialog.conflict.fields)
                merged = ReminderFields([field.name: pick([field.server, field.local])])
            }
            let base = chance(50) ? nil : dialog.conflict.server?.rev
            phones[device].act(.resolve(dialog.key, choice, merged: merged, base: base))
            count(choice.rawValue)
        }
    }

    // MARK: The server, watched

    private mutating func send(_ envelope: ReminderEnvelope, _ seen: ReminderRule?, _ device: Int) -> ReminderAnswer {
        // No copy of the whole book, whose stream would then be copied too.
        let (rules, aliases, top) = (book.rules, book.aliases, book.top)
        made += 1
        let answer = book.apply(envelope, at: now, newID: Identifier("server-\(made)"))
        guard !answer.isReplayed else {
            if book.top != top { faults.append("a repeat of \(envelope.key.text) did something") }
            return answer
        }
        count(answer.status.rawValue)
        let told = book.events[Int(top)...]
        if told.contains(where: { $0.key != envelope.key }) { faults.append("an event has another key") }
        let isAdopted = if case .create = envelope.action { true } else { false }
        let most = answer.status == .applied || isAdopted && answer.status == .noop ? 1 : 0
        // Beside a rule that is in another zone, days that keep their instants.
        let isOfRule = told.contains { if case .updated = $0.change { true } else { false } }
        let own = told.filter { if case .occurrence = $0.change { !isOfRule } else { true } }.count
        if own > most || answer.status == .applied && own != 1 {
            faults.append("\(envelope) is \(answer.status) with \(told.count) events")
        }
        if case .update(let id, let changes, let base) = envelope.action {
            expect(answer, id, changes, base, seen, rules[id] ?? aliases[id].flatMap { rules[$0] }, device)
        }
        noteDone(envelope.action, answer, device) { rules[$0] ?? aliases[$0].flatMap { rules[$0] } }
        noteConflict(answer)
        if answer.status == .conflict, answer.conflict == nil { faults.append("a conflict without its sides") }
        note(told, by: device)
        return answer
    }

    /// Keeps how rules were last seen, deleted ones too, and what devices changed of them.
    private mutating func note(_ events: ArraySlice<ReminderEvent>, by device: Int?) {
        for event in events {
            switch event.change {
            case .created(let rule), .updated(let rule):
                if let device, let old = last[rule.id] {
                    let fields = ReminderFields().setting(rule.fields, rule.fields.differing(from: old))
                    own[phones[device].name, default: []].append((rule.id, rule.rev, fields))
                }
                last[rule.id] = rule.fields
                history[rule.id, default: [:]][rule.rev] = rule.fields
            default: break
            }
        }
    }

    /// Keeps what a device asked for and found done, by an update or by its decision about one.
    private mutating func noteDone(
        _ action: ReminderAction, _ answer: ReminderAnswer, _ device: Int, rule: (Identifier) -> ReminderRule?
    ) {
        guard answer.status != .conflict, answer.status != .rejected, var (name, changes, base) = update(of: action),
            let server = rule(name), let base, base < server.rev
        else { return }
        if changes[.zoneMode] == .text("follow") { changes[.zone] = .text(book.home.name) }
        let known = history[server.id]?[base].map { knowledge($0, server.id, base, device) }
        let done = changes.names.filter {
            changes[$0] == server.fields[$0] && (known == nil || known?[$0] != changes[$0])
        }
        own[phones[device].name, default: []].append((server.id, server.rev, ReminderFields().setting(changes, done)))
    }

    /// The update that an action is, or that a decision comes to.
    private func update(of action: ReminderAction) -> (rule: Identifier, changes: ReminderFields, base: Int64?)? {
        switch action {
        case .update(let id, let changes, let base): return (id, changes, base)
        case .resolve(let target, let choice, let merged, let base):
            guard choice != .acceptServer, let left = open[target] else { return nil }
            var changes = choice == .keepLocal ? left.wanted : left.taken
            if choice == .merge, let merged { changes = changes.setting(merged, merged.names) }
            return (left.rule, changes, base ?? left.rev)
        default: return nil
        }
    }

    private mutating func noteConflict(_ answer: ReminderAnswer) {
        guard let conflict = answer.conflict, conflict.code == "field" || conflict.code == "gone" else { return }
        let clashing = conflict.fields.map(\.name)
        open[answer.key] = OpenConflict(
            rule: conflict.id, rev: conflict.serverRev ?? history[conflict.id]?.keys.max() ?? 0, wanted: conflict.local,
            taken: ReminderFields().setting(conflict.local, conflict.local.names.filter { !clashing.contains($0) }))
    }

    /// What a device knew that saw a revision: with what it changed itself since, or asked for and found done.
    private func knowledge(
        _ seen: ReminderFields, _ rule: Identifier, _ base: Int64, _ device: Int
    ) -> ReminderFields {
        var known = seen
        for mine in own[phones[device].name] ?? [] where mine.rule == rule && mine.rev > base {
            known = known.setting(mine.fields, mine.fields.names)
        }
        return known
    }

    /// Fields that others have changed since a revision, be it back to what they were, without the device's knowledge.
    private func unseen(_ rule: Identifier, since base: Int64, _ device: Int) -> Set<ReminderField> {
        let mine = (own[phones[device].name] ?? []).filter { $0.rule == rule }
        let known = history[rule] ?? [:]
        return Set(
            ReminderField.allCases.filter { field in
                let changed = known.keys.filter { rev in
                    guard rev > base, let after = known[rev], let before = known[rev - 1] else { return false }
                    return after[field] != before[field]
                }
                // By which it learned of the last change, or which it was.
                guard let latest = changed.max() else { return false }
                return !mine.contains { $0.rev >= latest && $0.fields.names.contains(field) }
            })
    }

    /// Judges an update by what the device knew, and by what it has changed since: not by the server's memory.
    private mutating func expect(
        _ answer: ReminderAnswer, _ id: Identifier, _ changes: ReminderFields, _ base: Int64?, _ seen: ReminderRule?,
        _ server: ReminderRule?, _ device: Int
    ) {
        guard let server else {
            if answer.code != "gone" { faults.append("an update of nothing is \(answer)") }
            return
        }
        guard let base, let seen, seen.rev == base else { return }
        let known = knowledge(seen.fields, server.id, base, device)
        var changes = changes
        // Who follows is where the user is, whatever zone the device still shows.
        if changes[.zoneMode] == .text("follow") { changes[.zone] = .text(book.home.name) }
        let wishes = changes.names.filter { changes[$0] != known[$0] && changes[$0] != server.fields[$0] }
        let unseen = unseen(server.id, since: base, device)
        let clashing = wishes.filter { server.fields[$0] != known[$0] || unseen.contains($0) }
        let isConflict = !clashing.isEmpty
        if isConflict != (answer.status == .conflict) {
            faults.append("\(answer.key.text) must \(isConflict ? "" : "not ")conflict: \(answer)")
        }
        let fields = answer.conflict?.fields.map(\.name) ?? []
        if isConflict, fields != clashing {
            faults.append("\(answer.key.text) names \(fields), not \(clashing): \(changes) of \(known) met \(server)")
        }
        guard !isConflict, answer.status == .applied, let after = answer.rule else { return }
        var wanted = server.fields.setting(changes, wishes)
        if wanted[.zoneMode] == .text("follow") { wanted[.zone] = .text(book.home.name) }
        if after.fields != wanted {
            let names = after.fields.differing(from: wanted)
            faults.append("\(answer.key.text), \(changes) by \(base), is wrong in \(names): \(after) of \(server)")
        }
    }

    // MARK: The end

    private mutating func judge() {
        for phone in phones where phone.rules != book.rules || phone.exceptions != book.exceptions {
            faults.append("\(phone.name.text) ends with \(phone.rules), the server with \(book.rules)")
        }
        let shown = phones.flatMap(\.shown)
        if Set(shown).count != shown.count { faults.append("a conflict was shown twice") }
        if Set(shown) != book.conflictKeys { faults.append("shown \(shown.count), of \(book.conflictKeys.count)") }
        if book.events.map(\.offset) != Array(1...max(book.top, 1)).filter({ $0 <= book.top }) {
            faults.append("the stream has a hole")
        }
        var late = ReminderPhone("new")
        for event in book.events { late.hear(event) }
        if late.rules != book.rules || late.exceptions != book.exceptions {
            faults.append("the stream tells another end")
        }
        let products = book.rules.values.map { $0.fields[.product] }
        if Set(products).count != products.count { faults.append("a rule is there twice") }
    }
}
