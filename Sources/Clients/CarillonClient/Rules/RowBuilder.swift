import Bytes
import Care
import JSON

// What becomes a row of the queue when the person acts.

/// What the hub will probably answer, as far as the device can see.
struct Prediction: Sendable, Equatable {
    let status: String
    let code: String?
}

/// Makes rows: which entities an action touches, and what the person saw of them.
struct RowBuilder {
    let mirror: Mirror
    let zone: String
    let now: Timestamp

    /// A message of the hub has 64 KiB at most; the envelope around the payload is small.
    static let bytesMax = 60_000
    private static let named: Set<String> = [
        "createMedication", "createSchedule", "createStack", "createReminder", "logDose",
    ]

    /// The row of a new action. `newID` makes keys and ids.
    func row(
        _ type: String, _ payload: JSONTree, base: JSONTree? = nil, overlay: inout DoseOverlay, newID: () -> String
    ) throws -> (row: QueuedAction, prediction: Prediction?) {
        guard payload.isObject, !type.isEmpty else { throw CarillonError.invalid("an action has a type and an object") }
        var payload = payload
        if Self.named.contains(type), payload["id"] == nil {
            payload = payload.setting([.init("id", .string(newID()))])
        }
        var row = QueuedAction(
            key: newID(), type: type, payload: payload,
            clientTime: TimeText.text(now, utcOffset: Zones.offset(zone, now) ?? 0), zone: zone)
        row.base = base
        let prediction = describe(&row, &overlay)
        if let base { row.base = base }
        guard row.envelope(device: "").canonicalText.utf8.count <= Self.bytesMax else { throw CarillonError.tooLarge }
        return (row, prediction)
    }

    private func describe(_ row: inout QueuedAction, _ overlay: inout DoseOverlay) -> Prediction? {
        if row.type == "logDose" {
            row.entities = ["dose:\(row.payload["id"]?.string ?? "")"]
        } else if DoseOverlay.types.contains(row.type) {
            return doses(&row, &overlay)
        } else if ReminderOverlay.types.contains(row.type) {
            reminder(&row)
        } else if MedicationOverlay.types.contains(row.type) {
            list(&row)
        }
        return nil
    }

    // MARK: Doses

    private func doses(_ row: inout QueuedAction, _ overlay: inout DoseOverlay) -> Prediction? {
        func rev(_ id: String) -> Int64? { mirror.value(.dose, id)?["rev"]?.integer }
        if let id = row.payload["occurrenceId"]?.string {
            row.entities = ["dose:\(id)"]
            if row.base == nil, let seen = rev(id) { row.base = .object([.init("rev", .integer(seen))]) }
        }
        let target = row.payload["targetKey"]?.string ?? row.payload["of"]?.string
        overlay.fold(mirror, zone: zone, at: now, isReached: target != nil)
        let answer = overlay.attempt(row, mirror, at: now)
        if row.type == "bulkMarkAll" {
            let named = row.payload["occurrenceIds"]?.elements.compactMap(\.string)
            let found = answer.result?["items"]?.elements.compactMap { $0["occurrenceId"]?.string }
            let ids = named ?? found ?? []
            row.payload = pinned(row.payload, ids)
            row.entities = ids.map { "dose:\($0)" }
            let seen = ids.compactMap { id in
                rev(id).map { JSONTree.Member(id, .object([.init("rev", .integer($0))])) }
            }
            if !seen.isEmpty { row.base = .object(seen) }
        }
        if let target, row.entities.isEmpty {
            row.entities = mirror.row(key: target)?.entities ?? ["action:\(target)"]
        } else {
            row.more.memory = overlay.model.memory(of: Identifier(row.key), user: DoseOverlay.user)?.tree
        }
        return Prediction(status: answer.status.rawValue, code: answer.code)
    }

    /// What the person saw is what is marked, whenever the hub hears of it: criteria become the doses that they mean here,
    /// or, where none is known, those of the day on which the person acts.
    private func pinned(_ payload: JSONTree, _ ids: [String]) -> JSONTree {
        guard let criteria = payload["criteria"], criteria.isObject else { return payload }
        var members: [JSONTree.Member] = payload.members.filter { $0.name != "criteria" }
        if ids.isEmpty {
            let today = TimeText.text(now.date(utcOffset: Zones.offset(zone, now) ?? 0))
            let date = criteria["date"] ?? .string(today)
            members.append(.init("criteria", criteria.setting([.init("date", date)])))
        } else {
            members.append(.init("occurrenceIds", .array(ids.map { .string($0) })))
            if let future = criteria["includeFuture"] { members.append(.init("includeFuture", future)) }
        }
        return .object(members)
    }

    // MARK: Reminders

    private func reminder(_ row: inout QueuedAction) {
        // As the hub has them: the person may name a revision that the hub knows.
        let overlay = ReminderOverlay(mirror, zone: zone, now: now.second)
        let (name, rule) = overlay.rule(of: row.payload)
        row.entities = ["reminder:\(rule?.id.text ?? name)"]
        if let client = row.payload["clientId"]?.string { row.entities.append("reminder:\(client)") }
        // Of an occurrence the base is its own revision, also where the whole rule is sent back for it.
        if row.type == "setReminderOccurrence" || row.payload["applyTo"]?.string == "occurrence" {
            let told = row.type == "setReminderOccurrence" ? row.payload["rev"]?.integer : nil
            row.base = (told ?? overlay.revision(ofOccurrence: row.payload)).map(Self.base)
        } else if row.type == "updateReminder" || row.type == "deleteReminder" {
            row.base = Self.seen(row.payload["rev"], rule?.rev).map(Self.base)
            guard let rule else { return }
            row.more.seen = .object([
                .init("id", .string(rule.id.text)), .init("rev", .integer(rule.rev)),
                .init("fields", .object(rule.fields.members)),
            ])
        }
    }

    /// The revision that the person saw: of an object that is sent back whole its `rev`, else what the device has.
    ///
    /// Worst interleaving: another device's change arrives between the look and the tap. The device has it, and the person
    /// has not seen it. One that was shown before the hub knew it has 0, and is made as 1.
    private static func seen(_ told: JSONTree?, _ known: Int64?) -> Int64? {
        guard let rev = told?.integer, rev >= 0 else { return known }
        return max(rev, 1)
    }

    private static func base(_ rev: Int64) -> JSONTree { .object([.init("rev", .integer(rev))]) }

    // MARK: Medications

    private func list(_ row: inout QueuedAction) {
        let told = row.type.hasPrefix("create") ? nil : row.payload["rev"]
        // The hub would take it for the base where none is told.
        row.payload = .object(row.payload.members.filter { $0.name != "rev" })
        let id = row.payload["id"]?.string ?? ""
        var seen: JSONTree?
        if row.type == "updateSettings" {
            row.entities = ["settings"]
        } else if row.type.hasSuffix("Schedule") {
            row.entities = ["schedule:\(id)"]
            if let (owner, schedule) = owner(of: id) {
                row.entities.append(owner)
                seen = schedule
            } else if let stack = row.payload["stackId"]?.string {
                row.entities.append("stack:\(stack)")
            } else if let product = row.payload["productId"]?.string {
                row.entities.append("medication:\(product)")
            }
        } else {
            let kind = row.type.hasSuffix("Stack") ? EntityKind.stack : .medication
            row.entities = ["\(kind.rawValue):\(id)"]
            seen = mirror.value(kind, id)
        }
        // A revision that an action of this device is about to change is none that the person saw.
        guard !hasOwn(row) else { return }
        row.base = Self.seen(told, seen?["rev"]?.integer).map(Self.base)
    }

    private func owner(of schedule: String) -> (String, JSONTree)? {
        for kind in [EntityKind.medication, .stack] {
            for one in mirror.all(kind).values {
                let found = one.value?["schedules"]?.elements.first { $0["id"]?.string == schedule }
                if let found { return ("\(kind.rawValue):\(one.id)", found) }
            }
        }
        return nil
    }

    /// Whether an action of this device on the same thing is not confirmed.
    private func hasOwn(_ row: QueuedAction) -> Bool {
        mirror.actions.contains { other in
            let isUnderWay = other.more.until.map { !mirror.isConfirmed($0) } ?? false
            return (other.state.isWaiting || other.state == .parked || isUnderWay) && other.meets(row)
        }
    }
}
