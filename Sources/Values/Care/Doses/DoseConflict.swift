import Bytes
import JSON

/// A dose where the user's wish conflicts with its state.
package struct DoseConflict: Sendable {
    /// Why.
    package let code: ConflictCode
    /// Which dose.
    package let dose: Identifier
    /// The server's dose; nil when the user has none with this id.
    package let server: Dose?
    /// The `updates` of the event that the device had seen; nil when unknown.
    package let base: JSONTree?
    /// What the user wants.
    package let local: DoseIntent

    /// The payload for clients. `json` renders doses.
    package func tree(_ json: DoseJSON) -> JSONTree {
        .object([
            .init("code", .string(code.rawValue)),
            .init("entity", .object([.init("type", .string("dose")), .init("id", .string(dose.text))])),
            .init("server", server.map { json.answer($0).with(.init("changedBy", Self.changedBy($0))) } ?? .null),
            .init("base", base ?? .null),
            .init("local", .object(localMembers)),
            .init("fields", .array(fields)),
            .init(
                "options",
                .array(
                    (server == nil ? [.acceptServer] : [.keepLocal, .acceptServer, .merge]).map {
                        (choice: ConflictChoice) in .string(choice.rawValue)
                    })),
            .init("merged", server.map { json.answer(merged($0)) } ?? .null),
        ])
    }

    private func merged(_ dose: Dose) -> Dose {
        var dose = dose
        dose.note = local.note ?? dose.note
        return dose
    }

    private static func changedBy(_ dose: Dose) -> JSONTree {
        .object([
            .init("actor", .string(dose.changed.actor.rawValue)), .init("deviceId", .text(dose.changed.device?.text)),
            .init("key", .text(dose.changed.key?.text)),
            .init("at", .string(TimeText.text(dose.updatedAt))),
        ])
    }

    /// The members that the user sets, without nulls.
    private var localMembers: [JSONTree.Member] {
        let state = local.state.map { DoseJSON.members(of: $0) } ?? []
        return (state + [.init("note", .text(local.note))]).filter { member in
            if case .null = member.value { false } else { true }
        }
    }

    private var fields: [JSONTree] {
        let servers = server.map { DoseJSON.members(of: $0.state) + [.init("note", .text($0.note))] } ?? []
        return localMembers.compactMap { wanted in
            let has = servers.first { $0.name == wanted.name }?.value ?? .null
            let isSame = has.canonicalText.hasSameBytes(as: wanted.value.canonicalText)
            guard server == nil || !isSame else { return nil }
            let before = wanted.name == "status" || wanted.name == "takenAt" ? base?[wanted.name] : nil
            return .object([
                .init("name", .string(wanted.name)), .init("base", before ?? .null), .init("server", has),
                .init("local", wanted.value),
            ])
        }
    }
}
