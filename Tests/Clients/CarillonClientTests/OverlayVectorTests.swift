import Care
import Foundation
import JSON
import Testing

@testable import CarillonClient

/// `Tests/Vectors`, as a device sees them: what the hub has after an action is what the device showed when the person acted.
@Suite(.timeLimit(.minutes(5))) struct OverlayVectorTests {
    static func histories(_ name: String) throws -> [JSONTree] {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Vectors/\(name).json").standardized
        return try JSONTree(String(contentsOf: file, encoding: .utf8))["histories"]?.elements ?? []
    }

    @Test func dosesAreShownAsTheHubWillHaveThem() throws {
        var device = VectorDevice()
        for history in try Self.histories("doses") {
            device.begin()
            for step in history["steps"]?.elements ?? [] {
                let differences = try device.play(step)
                #expect(differences == [], "seed \(history["seed"]?.string ?? "")")
            }
        }
        // The others are refused before they are stored, or are on doses that time has changed here and not there.
        #expect(device.judged > 500, "\(device.judged) of \(device.actions)")
    }

    @Test func remindersAreShownAsTheHubWillHaveThem() throws {
        var judged = 0
        for history in try Self.histories("reminders") {
            var device = VectorReminders()
            for step in history["steps"]?.elements ?? [] {
                if let (shown, told) = try device.play(step) {
                    judged += 1
                    #expect(shown == told, "seed \(history["seed"]?.string ?? ""), \(step["key"]?.string ?? "")")
                }
            }
        }
        #expect(judged > 500, "\(judged)")
    }
}

/// A device that is told all that the hub of a vector has, and performs each action before the hub does.
struct VectorDevice {
    private(set) var actions = 0
    private(set) var judged = 0
    private var mirror = Mirror()
    private var overlay = DoseOverlay()
    private var values: [String: JSONTree] = [:]
    private var zone = "UTC"
    private var offset: Int64 = 0
    /// Actions that were not judged: what they left behind is the hub's to know. And the doses that they changed.
    private var untold: Set<String> = []
    private var stained: Set<String> = []

    mutating func begin() {
        mirror = Mirror(meta: [MirrorKey.device: "phone"])
        overlay = DoseOverlay()
        (values, untold, stained, zone, offset) = ([:], [], [], "UTC", 0)
    }

    /// Plays a step; returns how what was shown differs from what the hub has then.
    mutating func play(_ told: JSONTree) throws -> [String] {
        guard let step = told["step"], let now = step["at"]?.string.flatMap(TimeText.instant) else {
            return ["no step"]
        }
        var differences: [String] = []
        switch step["kind"]?.string {
        case "zone": zone = step["zone"]?.string ?? zone
        case "action": differences = try act(step, told, at: now)
        case "insert":
            let id = step["id"]?.string ?? ""
            if values[id] == nil { values[id] = Self.value(inserted: step) }
        default: break
        }
        take(told)
        return differences
    }

    /// The hub tells what it has.
    private mutating func take(_ told: JSONTree) {
        offset += 1
        for id in (told["gone"]?.elements ?? []).compactMap(\.string) {
            values[id] = nil
            mirror.put(Entity(.dose, id, offset: offset, value: nil))
        }
        for row in told["doses"]?.elements ?? [] {
            guard let id = row["id"]?.string, let old = values[id] else { continue }
            let value = old.setting(row.members).setting([.init("hasNote", .bool(row["note"]?.string != nil))])
            values[id] = value
            mirror.put(
                Entity(
                    .dose, id, offset: offset, value: value, statusRev: row["statusRev"]?.integer ?? 0,
                    noteRev: row["noteRev"]?.integer ?? 0))
        }
    }

    private static func value(inserted step: JSONTree) -> JSONTree {
        let zone = step["tz"]?.string ?? "UTC"
        let scheduled = step["scheduledAt"]?.string.flatMap(TimeText.instant)
        let local = scheduled.map { TimeText.local($0, utcOffset: Zones.offset(zone, $0) ?? 0) }
        return .object([
            .init("timezone", .string(zone)), .init("scheduledAt", step["scheduledAt"] ?? .null),
            .init("timeLocal", .text(local)), .init("windowStart", step["windowStart"] ?? .null),
            .init("windowEnd", step["windowEnd"] ?? .null), .init("productId", step["product"] ?? .null),
            .init("scheduleId", step["schedule"] ?? .null), .init("createdAt", step["at"] ?? .null),
        ])
    }

    private mutating func act(_ step: JSONTree, _ told: JSONTree, at now: Timestamp) throws -> [String] {
        actions += 1
        let changed = (told["doses"]?.elements ?? []).compactMap { $0["id"]?.string }
        // A device makes no key twice.
        guard let row = try row(step, at: now), let answer = told["answer"], mirror.row(key: row.key) == nil else {
            untold.insert(step["key"]?.string ?? "")
            stained.formUnion(changed)
            return []
        }
        overlay.fold(mirror, zone: zone, at: now, isReached: DoseOverlay.reaching.contains(row.type))
        let guess = overlay.attempt(row, mirror, at: now)
        var stored = row
        stored.more.memory = overlay.model.memory(of: Identifier(row.key), user: DoseOverlay.user)?.tree
        mirror.append(stored)
        overlay.fold(mirror, zone: zone, at: now)
        let named = row.payload["targetKey"]?.string ?? row.payload["of"]?.string
        // Time has missed these here, and its job there has not run.
        let own = (named.flatMap { mirror.row(key: $0)?.entities } ?? row.entities).map { String($0.dropFirst(5)) }
        let ids = row.payload["criteria"] == nil ? own + changed : Array(values.keys)
        let isAged = ids.contains { id in
            mirror.entity(.dose, id)?.dose.map { $0.afterTime(now).state.status != $0.state.status } ?? false
        }
        let isKnown = named.map { name in
            let doses = mirror.row(key: name)?.entities.map { String($0.dropFirst(5)) }
            return doses.map { !untold.contains(name) && stained.isDisjoint(with: $0 + changed) } ?? false
        }
        let isJudged = !isAged && isKnown ?? true
        var differences: [String] = []
        if isJudged {
            judged += 1
            differences = compare(guess, answer, told, at: now, isLocal: step["clientTime"]?.string != nil)
        }
        // A note that is there already is one more of the set: only the hub knows of which.
        if !isJudged || (guess.status == .applied && changed.isEmpty) {
            untold.insert(row.key)
            stained.formUnion(changed)
        }
        settle(stored, isJudged ? guess.tree : answer, at: now)
        return differences.map { "\(row.type) \(row.key): \($0)" }
    }

    /// The action as the device keeps it; nil for one that it would not take.
    private func row(_ step: JSONTree, at now: Timestamp) throws -> QueuedAction? {
        guard let payload = try step["payload"]?.string.map({ try JSONTree($0) }), payload.isObject,
            let key = step["key"]?.string, let type = step["type"]?.string
        else { return nil }
        let sent = try step["clientTime"]?.string.map { try JSONTree($0) }
        // Other forms of times are the hub's matter: a device writes one.
        if let sent, sent.string == nil { return nil }
        let time = sent?.string ?? TimeText.text(now, utcOffset: 0)
        var row = QueuedAction(
            key: key, type: type, payload: payload, clientTime: time, zone: step["tz"]?.string ?? zone)
        row.base = try step["base"]?.string.map { try JSONTree($0) }
        let ids = payload["occurrenceIds"]?.elements.compactMap(\.string) ?? []
        row.entities = (payload["occurrenceId"]?.string.map { [$0] } ?? ids).map { "dose:\($0)" }
        return row
    }

    private func compare(
        _ guess: CareAnswer, _ answer: JSONTree, _ told: JSONTree, at now: Timestamp, isLocal: Bool
    ) -> [String] {
        var differences: [String] = []
        func check(_ what: String, _ shown: String?, _ wanted: String?) {
            if shown != wanted { differences.append("\(what) is \(shown ?? "nil"), not \(wanted ?? "nil")") }
        }
        check("status", guess.status.rawValue, answer["status"]?.string)
        check("code", guess.code, answer["code"]?.string)
        check("path", guess.path, answer["path"]?.string)
        let items = guess.tree["result"]?["items"]?.elements.map {
            "\($0["occurrenceId"]?.string ?? "") \($0["status"]?.string ?? "")"
        }
        let wanted = answer["items"]?.elements.map {
            "\($0["occurrenceId"]?.string ?? "") \($0["status"]?.string ?? "")"
        }
        check("items", items?.joined(separator: ", "), wanted?.joined(separator: ", "))
        for row in told["doses"]?.elements ?? [] {
            let id = row["id"]?.string ?? ""
            guard let dose = overlay.doses[Identifier(id)] else {
                differences.append("\(id) is not shown")
                continue
            }
            let state = dose.state
            // What an undo brings back may have been missed meanwhile.
            let isLate = dose.windowEnd.adding(seconds: DoseRules.graceSeconds) <= now
            let status = row["status"]?.string
            check("\(id): status", state.status.rawValue, status == "scheduled" && isLate ? "missed" : status)
            check("\(id): takenAt", state.takenAt.map { TimeText.text($0) }, row["takenAt"]?.string)
            let local = state.takenAt.flatMap { at in state.takenOffset.map { TimeText.text(at, utcOffset: $0) } }
            if isLocal { check("\(id): takenAtLocal", local, row["takenAtLocal"]?.string) }
            check("\(id): reason", state.reason, row["reason"]?.string)
            check("\(id): note", dose.note, row["note"]?.string)
            check("\(id): rev", "\(dose.rev)", row["rev"]?.integer.map { "\($0)" })
            check("\(id): localDate", TimeText.text(dose.day), row["localDate"]?.string)
        }
        return differences
    }

    /// The hub answers, and tells the events.
    private mutating func settle(_ row: QueuedAction, _ answer: JSONTree, at now: Timestamp) {
        mirror.settle([answer.setting([.init("key", .string(row.key))])], at: now)
    }
}

/// Reminders of a vector, on a device.
struct VectorReminders {
    private var rules: [JSONTree] = []
    private var days: [JSONTree] = []
    private var seen: [String: [Int64: JSONTree]] = [:]
    /// Which device made each revision.
    private var makers: [String: [Int64: String]] = [:]
    private var zone = "UTC"

    /// Plays a step; returns what was shown and what the hub has then, where a device can know it.
    mutating func play(_ step: JSONTree) throws -> (shown: [String], told: [String])? {
        defer { take(step) }
        if let name = step["zone"]?.string {
            zone = name
            return nil
        }
        guard let row = row(step), let now = step["at"]?.integer else { return nil }
        var overlay = ReminderOverlay(try mirror(row), zone: zone, now: Int(now))
        overlay.fold()
        return (Self.shown(overlay.book, at: Int(now)), told(step))
    }

    private mutating func take(_ step: JSONTree) {
        rules = step["rules"]?.elements ?? []
        days = step["days"]?.elements ?? []
        for rule in rules {
            guard let id = rule["id"]?.string, let rev = rule["rev"]?.integer else { continue }
            seen[id, default: [:]][rev] = rule["fields"]
            if makers[id]?[rev] == nil { makers[id, default: [:]][rev] = step["device"]?.string ?? "" }
        }
    }

    /// Nil: what deleted rules and other devices have left behind is the hub's to know, and decisions are not folded.
    private func row(_ step: JSONTree) -> QueuedAction? {
        guard let action = step["action"], let key = step["key"]?.string, let status = step["answer"]?["status"]?.string
        else { return nil }
        // Where a person moved a day that keeps its instant now is the hub's to know.
        if days.contains(where: { $0["kept"]?.integer != nil && $0["movedTo"]?.integer != nil }) { return nil }
        let name = action["id"]?.string ?? action["rule"]?.string ?? ""
        let rule = rules.first { $0["id"]?.string == name || $0["clientId"]?.string == name }
        let kind = action["kind"]?.string ?? ""
        guard kind == "create" ? status == "applied" : rule != nil else { return nil }
        var payload: [JSONTree.Member] = []
        var type = "setReminderOccurrence"
        switch kind {
        case "create":
            type = "createReminder"
            payload = action["fields"]?.members ?? []
            payload += [.init("id", step["answer"]?["rule"] ?? .null)]
            if let client = action["clientId"]?.string ?? (name.hasPrefix("tmp-") ? name : nil) {
                payload.append(.init("clientId", .string(client)))
            }
        case "update", "delete":
            type = "\(kind)Reminder"
            payload = (action["fields"]?.members ?? []) + [.init("id", .string(name))]
        case "snooze", "set":
            // Who has decided about a day since is the hub's to know.
            guard let day = action["day"]?.integer, status != "conflict" else { return nil }
            payload = [.init("id", .string(name)), .init("date", .string(TimeText.text(LocalDate(days: Int(day)))))]
            if kind == "snooze" {
                type = "snoozeReminder"
                if let until = action["until"]?.integer { payload.append(.init("until", .integer(until * 1000))) }
                if let minutes = action["minutes"] { payload.append(.init("minutes", minutes)) }
            } else {
                payload += Self.change(action["change"])
            }
        default: return nil
        }
        let at = Timestamp(microseconds: (step["at"]?.integer ?? 0) * 1_000_000)
        var row = QueuedAction(
            key: key, type: type, payload: .object(payload), clientTime: TimeText.text(at, utcOffset: 0), zone: zone)
        if let base = action["base"]?.integer {
            // What a device made itself since is the hub's to know.
            let later = rule?["id"]?.string.flatMap { makers[$0] }?.filter { $0.key > base } ?? [:]
            if later.values.contains(step["device"]?.string ?? "") { return nil }
            // So is what others have changed, and changed back.
            if let id = rule?["id"]?.string, let now = rule?["rev"]?.integer, base < now, let known = seen[id] {
                let wanted = (action["fields"]?.members ?? []).map(\.name)
                let texts = (base...now).map { rev in wanted.map { known[rev]?[$0]?.canonicalText } }
                let isBack = wanted.indices.contains { index in
                    texts.last?[index] == texts.first?[index] && texts.contains { $0[index] != texts.first?[index] }
                }
                if isBack { return nil }
            }
            row.base = .object([.init("rev", .integer(base))])
            if let id = rule?["id"]?.string, let fields = seen[id]?[base] {
                row.more.seen = .object([
                    .init("id", .string(id)), .init("rev", .integer(base)), .init("fields", fields),
                ])
            }
        }
        return row
    }

    private static func change(_ change: JSONTree?) -> [JSONTree.Member] {
        switch change?["kind"]?.string {
        case "cancel": [.init("enabled", .bool(false))]
        case "bringBack": [.init("enabled", .bool(true))]
        default:
            [.init("movedTo", .text(change?["to"]?.integer.map { wall(Int($0)) }))]
        }
    }

    private static func wall(_ second: Int) -> String {
        String(TimeText.local(Timestamp(microseconds: Int64(second) * 1_000_000), utcOffset: 0).prefix(19))
    }

    private func mirror(_ row: QueuedAction) throws -> Mirror {
        var mirror = Mirror(positions: ["c": StoredPosition(epoch: "e", offset: 1)])
        for rule in rules {
            let value = (rule["fields"] ?? .null).setting(rule.members.filter { $0.name != "fields" })
            mirror.put(Entity(.reminder, rule["id"]?.string ?? "", offset: 1, value: value))
        }
        for (index, day) in days.enumerated() {
            let instant = day["snoozedUntil"]?.integer.map { Timestamp(microseconds: $0 * 1_000_000) }
            let value = JSONTree.object([
                .init("id", .string("o\(index)")), .init("ruleId", day["rule"] ?? .null),
                .init("rev", day["rev"] ?? .null),
                .init("date", .text(day["day"]?.integer.map { TimeText.text(LocalDate(days: Int($0))) })),
                .init("status", .string(day["isCancelled"]?.flag == true ? "cancelled" : "scheduled")),
                .init("movedTo", .text((day["kept"]?.integer ?? day["movedTo"]?.integer).map { Self.wall(Int($0)) })),
                .init("kept", .bool(day["kept"]?.integer != nil)),
                .init("start", .text(day["kept"]?.integer.map { Self.wall(Int($0)) + "Z" })),
                .init("snoozedUntil", .text(instant.map { TimeText.text($0) })),
                .init("snoozeCount", day["snoozes"] ?? .null),
            ])
            mirror.put(Entity(.reminderDay, "o\(index)", offset: 1, value: value))
        }
        mirror.append(row)
        return mirror
    }

    private static func shown(_ book: ReminderBook, at now: Int) -> [String] {
        book.rules.values.map { rule in
            let next = book.upcoming(rule, after: now, 3).map { "\($0.day.days) \($0.start)" }
            return "\(rule.id.text) \(JSONTree.object(rule.fields.members).canonicalText) \(next)"
        }.sorted()
            + book.exceptions.map { day, one in
                "\(day.rule.text) \(day.day.days) \(one.isCancelled) \(one.kept ?? one.movedTo ?? 0) "
                    + "\(one.snoozedUntil ?? 0) \(one.snoozes)"
            }.sorted()
    }

    private func told(_ step: JSONTree) -> [String] {
        (step["rules"]?.elements ?? []).map { rule in
            let next = (rule["next"]?.elements ?? []).map { next in
                next.elements.compactMap(\.integer).map { "\($0)" }.joined(separator: " ")
            }
            let fields = JSONTree.object(ReminderFields(rule["fields"] ?? .null).members).canonicalText
            return "\(rule["id"]?.string ?? "") \(fields) \(next)"
        }.sorted()
            + (step["days"]?.elements ?? []).map { day in
                "\(day["rule"]?.string ?? "") \(day["day"]?.integer ?? 0) \(day["isCancelled"]?.flag ?? false) "
                    + "\(day["kept"]?.integer ?? day["movedTo"]?.integer ?? 0) "
                    + "\(day["snoozedUntil"]?.integer ?? 0) \(day["snoozes"]?.integer ?? 0)"
            }.sorted()
    }
}
