import Bytes
import Care
import JSON

/// One step of a history, for model and database, with its time.
struct Step: Sendable {
    enum Change: Sendable {
        /// A device's action, with the texts as sent.
        case action(CareEnvelope)
        /// The user's zone.
        case zone(String)
        /// A backend inserts a dose; an existing id stays unchanged.
        case insert(Dose)
        /// A backend updates those named doses that are the user's own; nil leaves a member unchanged.
        case update([Identifier], state: DoseState?, note: String??, day: LocalDate?)
        case delete([Identifier])
        case move(Identifier, to: Identifier)
        case epoch(String)
    }

    let at: Timestamp
    let user: Identifier
    let change: Change
}

extension Step {
    /// The step in the format of `test.run`.
    var tree: JSONTree {
        var members: [JSONTree.Member] = [
            .init("at", .string(TimeText.text(at))), .init("user", .string(user.text)),
        ]
        switch change {
        case .action(let envelope):
            members += [
                .init("kind", .string("action")), .init("key", .string(envelope.key.text)),
                .init("device", .text(envelope.device?.text)),
                .init("n", envelope.number.map { .integer($0) } ?? .null), .init("type", .string(envelope.type)),
                .init("payload", .text(envelope.payload?.canonicalText)),
                .init("base", .text(envelope.base?.canonicalText)),
                .init("clientTime", .text(envelope.clientTime?.canonicalText)), .init("tz", .text(envelope.zone)),
            ]
        case .zone(let zone):
            members += [.init("kind", .string("zone")), .init("zone", .string(zone))]
        case .insert(let dose):
            members += [.init("kind", .string("insert"))] + Self.members(of: dose)
        case .update(let ids, let state, let note, let day):
            members += [.init("kind", .string("update")), .init("ids", Self.list(ids))]
            if let state {
                members.append(
                    .init(
                        "set",
                        .object([
                            .init("status", .string(state.status.rawValue)),
                            .init("takenAt", .text(state.takenAt.map { TimeText.text($0) })),
                            .init("reason", .text(state.reason)),
                        ])))
            }
            if let note { members.append(.init("note", .text(note))) }
            if let day { members.append(.init("day", .string(TimeText.text(day)))) }
        case .delete(let ids):
            members += [.init("kind", .string("delete")), .init("ids", Self.list(ids))]
        case .move(let id, let taker):
            members += [
                .init("kind", .string("move")), .init("ids", Self.list([id])), .init("taker", .string(taker.text)),
            ]
        case .epoch(let epoch):
            members += [.init("kind", .string("epoch")), .init("epoch", .string(epoch))]
        }
        return .object(members)
    }

    private static func list(_ ids: [Identifier]) -> JSONTree { .array(ids.map { .string($0.text) }) }

    private static func members(of dose: Dose) -> [JSONTree.Member] {
        [
            .init("id", .string(dose.id.text)), .init("schedule", .text(dose.scheduleID)),
            .init("product", .text(dose.productID)), .init("status", .string(dose.state.status.rawValue)),
            .init("takenAt", .text(dose.state.takenAt.map { TimeText.text($0) })),
            .init("reason", .text(dose.state.reason)), .init("note", .text(dose.note)),
            .init("scheduledAt", .string(TimeText.text(dose.scheduledAt))), .init("tz", .string(dose.zone)),
            .init("day", .string(TimeText.text(dose.day))),
            .init("windowStart", .text(dose.windowStart.map { TimeText.text($0) })),
            .init("windowEnd", .string(TimeText.text(dose.windowEnd))),
        ]
    }
}

// MARK: The model's side

extension CareModel {
    /// Plays a step and renders the answer expected from the database: status, answer and new events, a line each. The
    /// wording of messages is the server's own, so only their presence is compared.
    mutating func play(_ step: Step) -> String {
        let top = accounts[step.user]?.top ?? 0
        var lines: [String] = []
        switch step.change {
        case .action(let envelope):
            var answer = apply(envelope, user: step.user, at: step.at)
            if answer.message != nil { answer.message = "…" }
            lines = [answer.status.rawValue, answer.tree.canonicalText]
        case .zone(let zone): move(step.user, to: zone)
        case .insert(let dose):
            let isTaken = accounts.values.contains { $0.doses[dose.id] != nil }
            foreignWrite([dose.id], user: step.user, at: step.at) { _, old in isTaken ? old : dose }
        case .update(let ids, let state, let note, let day):
            foreignWrite(ids, user: step.user, at: step.at) { _, old in
                guard var dose = old else { return nil }
                if var state {
                    // The statement names no offset.
                    if state.takenAt == dose.state.takenAt { state.takenOffset = dose.state.takenOffset }
                    dose.state = state
                }
                dose.note = note ?? dose.note
                dose.day = day ?? dose.day
                return dose
            }
        case .delete(let ids):
            foreignWrite(ids, user: step.user, at: step.at) { _, _ in nil }
        case .move(let id, let taker): foreignMove(id, from: step.user, to: taker, at: step.at)
        case .epoch(let name):
            let lineage = epoch.drop { $0 != "." }
            epoch = name + lineage
        }
        for event in accounts[step.user]?.events.drop(while: { $0.offset <= top }) ?? [] {
            lines.append(event.name + " " + event.data.canonicalText)
        }
        return lines.joined(separator: "\n")
    }

    /// All rows of a user at the end of a history, a line each.
    func rows(_ user: Identifier, at now: Timestamp) -> String {
        guard let account = accounts[user] else { return "" }
        var lines = account.doses.values.sorted { $0.id < $1.id }.map { dose in
            JSONTree.array([
                .string("dose"), json.answer(dose), .integer(dose.statusRev), .integer(dose.noteRev),
                .text(dose.changed.key?.text), .text(dose.changed.device?.text),
            ])
        }
        lines += account.notes.sorted { ($0.key.dose, $0.key.key) < ($1.key.dose, $1.key.key) }.map { id, text in
            .array([.string("note"), .string(id.dose.text), .string(id.key.text), .string(text)])
        }
        lines += account.devices.sorted { $0.key < $1.key }.map { id, device in
            .array([.string("device"), .string(id.text), .integer(device.number)])
        }
        lines += account.days.sorted { $0.key < $1.key }.map { day, record in
            .array([
                .string("day"), DoseJSON.summary(day, record.counts), .integer(Int64(record.streak.run)),
                .integer(Int64(record.streak.best)),
            ])
        }
        lines += account.days.keys.sorted().map { .array([.string("shown"), summary(account, of: $0, at: now)]) }
        lines.append(.array([.string("actions"), .integer(Int64(account.actionCount)), .integer(account.top)]))
        lines.append(.array([.string("stats"), DoseJSON.statistics(statistics(account, at: now))]))
        return lines.map(\.canonicalText).joined(separator: "\n")
    }
}
