import Care
import JSON

// How events and snapshots become stored entities.

/// A snapshot by HTTP, and the position at which it was read.
struct ClientSnapshot: Sendable {
    /// What was asked for.
    enum Part: Sendable, Hashable {
        case today
        case day(String)
        case month(String)
        case list(Topic)
        case note(dose: String)
    }

    let part: Part
    let body: JSONTree
    let position: StoredPosition
    /// The hub has none.
    var isAbsent = false

    static func absent(_ part: Part) -> ClientSnapshot {
        ClientSnapshot(part: part, body: .null, position: StoredPosition(epoch: "", offset: 0), isAbsent: true)
    }
}

extension ClientSnapshot.Part {
    /// Whether the hub may have none: what else was asked for does not wait for it.
    var mayBeAbsent: Bool {
        switch self {
        case .day, .month, .note: true
        case .today, .list: false
        }
    }

    /// Its path below `/users/{id}/`.
    var path: String {
        switch self {
        case .today: "adherence/today"
        case .day(let date): "adherence/today?date=\(date)"
        case .month(let month): "adherence/month?month=\(month)"
        case .list(let topic): topic.rawValue
        case .note(let dose): "adherence/occurrence/\(escaped(dose))"
        }
    }
}

/// A text as a part of a path.
func escaped(_ text: String) -> String {
    text.utf8.map { byte in
        let scalar = Unicode.Scalar(byte)
        let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || (0x30...0x39).contains(byte))
        if isPlain || [0x2D, 0x2E, 0x5F, 0x7E].contains(byte) { return String(scalar) }
        let digits = String(byte, radix: 16, uppercase: true)
        return "%" + (digits.count < 2 ? "0" : "") + digits
    }.joined()
}

extension EntityTable {
    // MARK: Events

    /// Folds one event. `own`: the action of this device that caused it.
    mutating func fold(_ event: String, _ data: JSONTree, own: QueuedAction?) {
        guard let offset = data["_sync"]?["o"]?.integer else { return }
        let body = JSONTree.object(data.members.filter { $0.name != "_sync" })
        let id = body["id"]?.string ?? ""
        switch event {
        case "occurrence.created", "occurrence.updated", "occurrence.cancelled":
            foldDose(event, body, offset, own)
            if let summary = body["daySummary"], let date = summary["date"]?.string {
                putNewer(.day, date, .object(summary.members.filter { $0.name != "month" }), offset)
            }
        case "adherence.summary_updated":
            guard let date = body["date"]?.string else { return }
            putNewer(.day, date, body["summary"], offset)
            putNewer(.stats, "stats", body["stats"], offset)
        case "reminder.created", "reminder.updated": putNewer(.reminder, id, body, offset)
        case "reminder.deleted":
            putNewer(.reminder, id, nil, offset)
            for day in all(.reminderDay).values where day.value?["ruleId"]?.string == id {
                putNewer(.reminderDay, day.id, nil, offset)
            }
        case "reminder.occurrence_updated":
            putNewer(.reminderDay, id, body["removed"]?.flag == true ? nil : body, offset)
        case "medication.created", "medication.updated": putNewer(.medication, id, body, offset)
        case "medication.deleted": putNewer(.medication, id, nil, offset)
        case "stack.created", "stack.updated": putNewer(.stack, id, body, offset)
        case "stack.deleted": putNewer(.stack, id, nil, offset)
        case "settings.updated": putNewer(.settings, "settings", body, offset)
        default: break
        }
    }

    private mutating func putNewer(_ kind: EntityKind, _ id: String, _ value: JSONTree?, _ offset: Int64) {
        if let before = entity(kind, id), before.offset >= offset { return }
        put(Entity(kind, id, offset: offset, value: value))
    }

    private mutating func foldDose(_ event: String, _ body: JSONTree, _ offset: Int64, _ own: QueuedAction?) {
        guard let id = body["occurrenceId"]?.string else { return }
        let before = entity(.dose, id)
        if let before, before.offset >= offset { return }
        guard event != "occurrence.cancelled" else {
            put(Entity(.dose, id, offset: offset, value: nil))
            return
        }
        let old = before?.value
        let told = body[event == "occurrence.created" ? "occurrence" : "updates"] ?? .object([])
        let start: [JSONTree.Member] = [.init("reason", .null), .init("note", .null)]
        var dose = JSONTree.object(start).setting(old?.members ?? []).setting([
            .init("id", .string(id)), .init("userId", body["userId"] ?? .null),
        ]).setting(told.members)
        let isNew = old == nil || old?["createdAt"]?.string != dose["createdAt"]?.string
        let isOther =
            isNew || old?["status"]?.string != dose["status"]?.string
            || old?["takenAt"]?.string != dose["takenAt"]?.string
        // Events tell no texts. An action of this device tells its own; others are fetched.
        let ownReason = own.flatMap { row -> JSONTree? in
            ["skip", "makeUp"].contains(row.type) ? row.payload["reason"] ?? .null : nil
        }
        if isOther, !Self.isReasoned(dose) { dose = dose.setting([.init("reason", .null)]) }
        if isOther, let ownReason { dose = dose.setting([.init("reason", ownReason)]) }
        let isReasonOld = Self.isReasoned(dose) && ownReason == nil && (isOther || before?.isNoteOld == true)
        let ownNote = own.flatMap {
            $0.type == "addNote" ? $0.payload["text"] ?? $0.payload["note"] : $0.payload["note"]
        }
        let hasNote = dose["hasNote"]?.flag ?? false
        if !hasNote {
            dose = dose.setting([.init("note", .null)])
        } else if let ownNote {
            dose = dose.setting([.init("note", ownNote)])
        }
        let rev = dose["rev"]?.integer ?? 0
        let isNoted = ownNote != nil || (!isNew && !isOther)
        put(
            Entity(
                .dose, id, offset: offset, value: dose, statusRev: isOther ? rev : before?.statusRev ?? rev,
                noteRev: isNew || isNoted ? rev : before?.noteRev ?? rev,
                isNoteOld: isReasonOld || (hasNote && ownNote == nil)))
    }

    /// Whether a dose may have a reason, which no event and no day's answer tells.
    private static func isReasoned(_ dose: JSONTree) -> Bool {
        ["skipped", "made_up"].contains(dose["status"]?.string ?? "")
    }

    // MARK: Snapshots

    /// Writes what a snapshot says.
    mutating func put(_ snapshot: ClientSnapshot) {
        let (body, offset) = (snapshot.body, snapshot.position.offset)
        switch snapshot.part {
        case .today, .day: putDay(body, offset)
        case .month(let month):
            for day in body.elements { putSnapshot(.day, day["date"]?.string, day, offset) }
            put(Entity(.loaded, "month:\(month)", offset: offset, value: .bool(true)))
        case .list(.reminders):
            for rule in body["items"]?.elements ?? [] { putSnapshot(.reminder, rule["id"]?.string, rule, offset) }
            for day in body["occurrences"]?.elements ?? [] { putSnapshot(.reminderDay, day["id"]?.string, day, offset) }
        case .list(.medications):
            for one in body["items"]?.elements ?? [] { putSnapshot(.medication, one["id"]?.string, one, offset) }
            for one in body["stacks"]?.elements ?? [] { putSnapshot(.stack, one["id"]?.string, one, offset) }
            putSnapshot(.settings, "settings", body["settings"] ?? .object([]), offset)
        case .list(.adherence): break
        case .note(let id):
            guard let row = entity(.dose, id), let value = row.value else { return }
            if (value["rev"]?.integer ?? 0) > (body["rev"]?.integer ?? 0) { return }
            let texts = ["note", "reason"].map { JSONTree.Member($0, body[$0] ?? .null) }
            put(
                Entity(
                    .dose, id, offset: row.offset, value: value.setting(texts), statusRev: row.statusRev,
                    noteRev: row.noteRev))
        }
    }

    /// A snapshot's value counts before an event's of the same number: the event is in it.
    private mutating func putSnapshot(_ kind: EntityKind, _ id: String?, _ value: JSONTree, _ offset: Int64) {
        guard let id else { return }
        if let before = entity(kind, id), before.offset > offset { return }
        put(Entity(kind, id, offset: offset, value: value))
    }

    /// The doses of a day, without those that have left it. Today's answer says by two lists which it has.
    private mutating func putDay(_ body: JSONTree, _ offset: Int64) {
        guard let date = body["summary"]?["date"]?.string else { return }
        let doses = ["occurrences", "elsewhere"].flatMap { body[$0]?.elements ?? [] }
        let there = Set(doses.compactMap { $0["id"]?.string })
        for row in all(.dose).values
        where row.value?["localDate"]?.string == date && !there.contains(row.id) && row.offset <= offset {
            remove(row.key)
        }
        for dose in doses {
            guard let id = dose["id"]?.string else { continue }
            let before = entity(.dose, id)
            if let before, before.offset > offset { continue }
            let old = before?.value?["createdAt"]?.string == dose["createdAt"]?.string ? before : nil
            let isSame =
                old != nil && old?.value?["status"]?.string == dose["status"]?.string
                && old?.value?["takenAt"]?.string == dose["takenAt"]?.string
            let rev = dose["rev"]?.integer ?? 0
            let isNoteSame = old != nil && old?.value?["note"]?.string == dose["note"]?.string
            // A day's answer has no reasons but what the dose itself tells.
            let reason = JSONTree.Member("reason", isSame ? old?.value?["reason"] ?? .null : .null)
            put(
                Entity(
                    .dose, id, offset: offset, value: JSONTree.object([reason]).setting(dose.members),
                    statusRev: isSame ? old?.statusRev ?? rev : rev, noteRev: isNoteSame ? old?.noteRev ?? rev : rev,
                    isNoteOld: Self.isReasoned(dose) && (!isSame || old?.isNoteOld == true)))
        }
        put(Entity(.loaded, "day:\(date)", offset: offset, value: .bool(true)))
        putSnapshot(.day, date, body["summary"] ?? .null, offset)
        if let stats = body["stats"] { putSnapshot(.stats, "stats", stats, offset) }
    }
}
