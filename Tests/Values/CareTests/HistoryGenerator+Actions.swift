import Care
import JSON
import TestSupport

// Actions that devices send: new ones, repeats, repeats with another payload, and faulty payloads.
extension HistoryGenerator {
    /// The next action and its user.
    mutating func action() -> (Identifier, CareEnvelope) {
        if chance(swarm.repeated), let (user, envelope) = pick(sent) { return (user, repeated(envelope)) }
        let user = nextUser()
        var envelope = CareEnvelope(key: newKey(), type: weightedType(), payload: nil)
        number(&envelope, user: user)
        envelope.payload = .object(payload(envelope.type, user: user))
        if chance(0.3) { envelope.base = base(user, envelope.payload) }
        if chance(0.5) {
            // Also about a day ago, where the time is no longer accepted, or so long ago that it says nothing of the day.
            let seconds = chance(0.4) ? pick([-43_200, -86_400, -86_401, -100_000, -7_776_000, -7_776_001]) ?? 0 : 0
            envelope.clientTime = chance(0.1) ? lostTime() : time(around: now.adding(seconds: seconds))
        }
        if chance(0.15) { envelope.zone = pick(Subject.zones.keys.sorted()) }
        if chance(swarm.corrupted) { corrupt(&envelope) }
        return (user, envelope)
    }

    private mutating func weightedType() -> String {
        // An undo is often followed by another.
        if sent.last?.envelope.type == "undo", chance(0.35) { return "undo" }
        var draw = Int.random(in: 0..<swarm.weights.reduce(0, +), using: &random)
        for (type, weight) in zip(DoseAction.types, swarm.weights) {
            if draw < weight { return type }
            draw -= weight
        }
        return "markTaken"
    }

    private mutating func newKey() -> Identifier {
        Identifier("k\(sent.count)" + (pick(["", "", "-é", "." + String(repeating: "x", count: 150)]) ?? ""))
    }

    /// The device's number: mostly the next one.
    private mutating func number(_ envelope: inout CareEnvelope, user: Identifier) {
        guard let device: Identifier = pick([nil, "phone", "phone", "tablet"]) ?? nil else { return }
        envelope.device = device
        guard chance(0.85) else { return }
        let next = (model.accounts[user]?.devices[device]?.number ?? 0) + 1
        envelope.number = chance(swarm.misnumbered) ? max(1, next + (pick([-2, -1, 1, 2]) ?? 1)) : next
    }

    /// Sends a key again, mostly with everything else unchanged.
    private mutating func repeated(_ envelope: CareEnvelope) -> CareEnvelope {
        var again = envelope
        switch Int.random(in: 0..<8, using: &random) {
        case 0: again.type = DoseAction.types.randomElement(using: &random) ?? again.type
        case 1: again.payload = again.payload?.with(.init("note", .string("changed")))
        case 2: again.base = .object([.init("rev", .integer(77))])
        case 3: again.device = "restored"
        case 4: again.clientTime = time(around: now)
        default: break
        }
        return again
    }

    // MARK: Payloads

    private mutating func payload(_ type: String, user: Identifier) -> [JSONTree.Member] {
        var members: [JSONTree.Member] = []
        func add(_ name: String, _ value: JSONTree, _ share: Double, _ self: inout Self) {
            if self.chance(share) { members.append(.init(name, value)) }
        }
        switch type {
        case "undo":
            let target = undoTarget(user)
            attend(to: target, of: user)
            add("targetKey", .string(target.text), 1, &self)
        case "resolve":
            let open = model.accounts[user]?.openConflicts ?? []
            let here = open.filter { key in focus.map { model.accounts[user]?.doses(of: key) == [$0.dose] } ?? false }
            let known = (chance(0.6) ? pick(here) : nil) ?? (chance(0.8) ? pick(open) : nil)
            let target = known ?? target(user)
            attend(to: target, of: user)
            add("of", .string(target.text), 1, &self)
            let choice = pick(ConflictChoice.allCases + [.merge, .merge]) ?? .merge
            add("choice", .string(choice.rawValue), 1, &self)
            add("merged", merged(focusedDose(of: user)), choice == .merge ? 0.8 : 0.1, &self)
        case "bulkMarkAll":
            if chance(0.6) {
                let ids = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                    JSONTree.string((chance(0.3) ? dose(of: user) : anyDose(of: user)).text)
                }
                add("occurrenceIds", .array(ids), 1, &self)
                add("includeFuture", .bool(chance(0.6)), 0.5, &self)
            } else {
                add("criteria", criteria(), 1, &self)
            }
            add("takenAt", time(around: now), 0.3, &self)
        default:
            let id = dose(of: user)
            add("occurrenceId", .string(id.text), 1, &self)
            let dose = model.accounts[user]?.doses[id]
            // A missed dose may still be taken when the time is neither too early nor too late.
            let near = moment(near: dose, early: dose?.state.status == .missed ? 0.4 : 0.25)
            add("takenAt", time(around: near), type == "markTaken" ? 0.65 : 0.2, &self)
            add("at", time(around: near), type == "makeUp" ? 0.5 : 0.05, &self)
            add("reason", .string(text()), 0.4, &self)
            add("note", .string(note(on: dose)), 0.4, &self)
            add("text", .string(note(on: dose)), type == "addNote" ? 0.9 : 0.05, &self)
        }
        add("unknown", .null, 0.1, &self)
        return members
    }

    /// Mostly one of the last actions that changed the last action's dose; sometimes one that is already undone.
    private mutating func undoTarget(_ user: Identifier) -> Identifier {
        if let key = firstOfEqualNotes(user), chance(0.8) { return key }
        if let dose = focusedDose(of: user), let account = model.accounts[user], chance(0.7),
            let key = pick(account.changes(of: dose.id, undone: chance(0.2)).suffix(3))
        {
            return key
        }
        return target(user)
    }

    /// The action that first added the last dose's note, when another has added it again: the note before must survive the
    /// undo.
    private func firstOfEqualNotes(_ user: Identifier) -> Identifier? {
        guard let dose = focusedDose(of: user), let account = model.accounts[user] else { return nil }
        let equal = Set(account.notes.filter { $0.key.dose == dose.id && $0.value == dose.note }.map(\.key.key))
        return equal.count < 2 ? nil : account.changes(of: dose.id, undone: false).first { equal.contains($0) }
    }

    private mutating func target(_ user: Identifier) -> Identifier {
        let own = sent.filter { $0.user == user }.map(\.envelope)
        let bulk = own.filter { $0.type == "bulkMarkAll" }.map(\.key)
        if chance(0.4), let key = pick(bulk.suffix(3)) { return key }
        return (chance(0.85) ? pick(own.map(\.key).suffix(8)) : pick(sent.map(\.envelope.key))) ?? "unknown"
    }

    private mutating func pick(_ keys: ArraySlice<Identifier>) -> Identifier? { pick(Array(keys)) }

    private mutating func criteria() -> JSONTree {
        var members: [JSONTree.Member] = []
        if chance(0.6) {
            let day = now.date(utcOffset: 0).adding(Int.random(in: -2...1, using: &random))
            members.append(.init("date", .string(TimeText.text(day))))
        }
        if chance(0.2) { members.append(.init("productId", .string("p1"))) }
        if chance(0.2) {
            let schedule = "s\(Int.random(in: 1...max(1, made.count), using: &random))"
            members.append(.init("scheduleId", .string(schedule)))
        }
        if chance(0.5) { members.append(.init("includeFuture", .bool(chance(0.7)))) }
        return .object(members)
    }

    /// A user's choice in a conflict about this dose. Times are often too early, because only here the user chooses them.
    private mutating func merged(_ dose: Dose?) -> JSONTree {
        var members: [JSONTree.Member] = []
        let isTimed = chance(0.8)
        let statuses: [DoseStatus] =
            isTimed && chance(0.6) ? [.taken, .madeUp] : DoseStatus.allCases.filter { $0 != .cancelled }
        if chance(0.8) { members.append(.init("status", .string((pick(statuses) ?? .taken).rawValue))) }
        if isTimed {
            let moment = moment(near: dose, early: 0.75, [-100_000, -86_401, -86_400])
            members.append(.init("takenAt", time(around: moment)))
        }
        if chance(0.3) { members.append(.init("reason", .string(text()))) }
        if chance(0.4) { members.append(.init("note", .string(note(on: dose)))) }
        if chance(0.1) { members.append(.init("takenAt", .null)) }
        return .object(members)
    }

    /// Now, or near the end of the dose's window; with probability `early`, some `seconds` from its start.
    private mutating func moment(
        near dose: Dose?, early: Double, _ seconds: [Int] = [-100_000, -86_401, -86_400, -60_000, -45_000]
    ) -> Timestamp {
        if let dose, chance(early) {
            let start = min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt)
            return start.adding(seconds: pick(seconds) ?? 0)
        }
        if chance(0.25) { return now }
        return (dose?.windowEnd ?? now).adding(seconds: pick([0, 900, 1799, 1800, 1801]) ?? 0)
    }

    /// Often the dose's own note: undoing equal notes has its own rule.
    private mutating func note(on dose: Dose?) -> String {
        if chance(0.75), let note = dose?.note { return note }
        return text()
    }

    private mutating func base(_ user: Identifier, _ payload: JSONTree?) -> JSONTree {
        let id = payload?["occurrenceId"]?.string.map { Identifier($0) } ?? dose(of: user)
        let rev = model.accounts[user]?.doses[id]?.rev ?? 1
        let seen = JSONTree.integer(chance(0.5) ? rev : max(0, rev - Int64.random(in: 0...3, using: &random)))
        let one = JSONTree.object([.init("rev", seen)])
        return chance(0.5) ? one : .object([.init(id.text, one), .init("other", .object([.init("rev", .integer(3))]))])
    }

    /// Few texts, so that equal ones occur.
    private mutating func text() -> String {
        pick(["n1", "n2", "took it \"late\"", "mit Essen, ½ Tablette\n😀", "\\ \u{1}\u{7F}", "e\u{301}", "é", " x "])
            ?? "n1"
    }

    /// What clocks tell that have lost the time.
    private mutating func lostTime() -> JSONTree {
        pick([
            .integer(0), .integer(420_000), .integer(-1), .string("1970-01-01T00:07:00+01:00"),
            .string("1999-12-31T23:59:59Z"), .string("2005-06-01T08:00:00Z"), .string("2101-01-01T00:00:00Z"),
            .string("2150-06-01T08:00:00-05:00"), .number("123456789012345678901234567890"),
        ]) ?? .integer(0)
    }

    /// A time near another, in one of the clients' formats; sometimes barely acceptable, sometimes in the future.
    private mutating func time(around time: Timestamp) -> JSONTree {
        var seconds = chance(0.5) ? 0 : pick([-60, -3600, -20_000, -43_200, 300, 900, 40_000, 86_400, 86_401]) ?? 0
        if chance(0.04) { seconds = pick([-100_000, -31_536_000]) ?? 0 }
        let at = time.adding(seconds: seconds)
        switch Int.random(in: 0..<5, using: &random) {
        case 0: return .integer(at.microseconds / 1000)
        case 3:
            return .string(
                String(TimeText.local(at, utcOffset: 0).prefix(19)) + ".9876543" + (pick(["+0000", "-00", "Z"]) ?? ""))
        case 1: return .string(TimeText.text(at))
        case 2: return .string(TimeText.local(at, utcOffset: pick([0, -18_000, 20_700, 50_400]) ?? 0))
        default: return .string(String(TimeText.local(at, utcOffset: 0).prefix(16)) + "Z")
        }
    }
}

// MARK: Wrong payloads

extension HistoryGenerator {
    private mutating func corrupt(_ envelope: inout CareEnvelope) {
        switch Int.random(in: 0..<20, using: &random) {
        case 0: envelope.type = pick(["", "marktaken", "delete", "markTaken "]) ?? ""
        case 1: envelope.payload = pick([nil, .array([]), .string("x"), .integer(1), .object([])]) ?? nil
        case 2:
            envelope.base = pick([
                .array([]), .integer(1), .object([.init("rev", odd())]),
                .object([.init("d1", .object([.init("rev", odd())]))]),
                .object([.init("d1", odd())]), .object([]),
            ])
        case 3: envelope.clientTime = odd()
        case 4: envelope.zone = pick(["Nowhere/Land", "utc+1", "x'; --"])
        default: envelope.payload = envelope.payload.map { corrupted($0) }
        }
        // Null counts as missing.
        if case .null? = envelope.base { envelope.base = nil }
        if case .null? = envelope.clientTime { envelope.clientTime = nil }
    }

    /// Removes one member, duplicates it under another name, or gives it an odd value, at any depth.
    private mutating func corrupted(_ tree: JSONTree) -> JSONTree {
        switch tree {
        case .object(var members):
            guard let index = members.indices.randomElement(using: &random) else {
                return .object([.init("occurrenceIds", odd())])
            }
            let member = members[index]
            switch Int.random(in: 0..<6, using: &random) {
            case 0: members.remove(at: index)
            case 1:
                let name =
                    pick(["criteria", "occurrenceIds", "takenAt", "merged", "note", "reason", "choice"]) ?? "note"
                members.removeAll { $0.name == name }
                members.append(.init(name, odd()))
            case 2 where chance(0.5): members[index] = .init(member.name + "s", member.value)
            default:
                let isDeep =
                    if case .object = member.value { true } else if case .array = member.value { true } else { false }
                members[index] = .init(member.name, isDeep && chance(0.7) ? corrupted(member.value) : odd())
            }
            return .object(members)
        case .array(var elements):
            if let index = elements.indices.randomElement(using: &random), chance(0.8) {
                elements[index] = odd()
            } else {
                let count = pick([0, 200, 201]) ?? 0
                elements = (0..<count).map { .string("d\($0 % 150)") }
            }
            return .array(elements)
        default: return odd()
        }
    }

    private mutating func odd() -> JSONTree {
        let long = pick([200, 201, 500, 501, 4000, 4001]) ?? 0
        return pick([
            .null, .bool(true), .bool(false), .integer(0), .integer(-1), .number("1.5"), .number("-0.25"),
            .integer(9_007_199_254_740_992), .integer(9_007_199_254_740_993), .number("123456789012345678901234567890"),
            .string(""), .string(" \t\r\n"), .string("\u{A0}"), .string("x"), .string("scheduled"),
            .string("cancelled"),
            .string(String(repeating: "y", count: long)), .string(String(repeating: "é", count: long / 2)),
            .array([]), .array([.null]), .object([]), .object([.init("rev", .null)]), .string("2025-02-30T00:00Z"),
            .string("2026-03-09T12:00"), .string("1999-12-31T23:59:59Z"), .string("2000-01-01T00:00:00Z"),
            .string("2101-01-01T00:00:00Z"), .string("2026-03-09T12:00:00.1234567Z"), .string("2026-02-29"),
            .string("2026-03-09"), .integer(946_684_799_999), .integer(946_684_800_000), .integer(4_133_980_800_000),
            .integer(now.microseconds / 1000 + 86_400_001), .number("1773100800000.5"), .string("accept_server"),
        ]) ?? .null
    }
}
