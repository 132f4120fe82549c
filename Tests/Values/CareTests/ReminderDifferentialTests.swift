import Care
import JSON
import TestSupport
import Testing

/// Compares the model of reminders with the SQL functions on random histories: after each step, answers, events and rows
/// are equal.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10)))
struct ReminderDifferentialTests {
    static let histories = Int(Environment.number("CARILLON_REMINDERS") ?? 25)

    @Test func databaseDoesWhatTheModelOfRemindersSays() async throws {
        var random = SeededRandom()
        let seeds = (0..<Self.histories).map { _ in random.next() }
        let (difference, counts) = try await onOwnThread { () -> (String?, [String: Int]) in
            let desk = try ReminderDesk()
            for seed in seeds {
                if let difference = try desk.difference(seed: seed) { return (difference, desk.counts) }
            }
            return (nil, desk.counts)
        }
        if let difference { Issue.record("CARILLON_SEED=\(random.seed), \(difference)") }
        #expect(counts["conflict", default: 0] > 0 && counts["applied", default: 0] > 0, "\(counts)")
    }
}

// MARK: The model's side in JSON

extension ReminderField {
    /// A value as JSON shows it.
    func tree(_ value: ReminderValue) -> JSONTree {
        switch value {
        case .absent: .null
        case .text(let text): .string(text.text)
        case .flag(let flag): .bool(flag)
        case .days(let days): .array(days.map { .integer(Int64($0)) })
        case .number(let number):
            if self == .time {
                .string(String(ReminderDesk.wall(number * 60).dropFirst(11).prefix(5)))
            } else {
                .integer(Int64(number))
            }
        }
    }
}

extension ReminderFields {
    /// The fields that are named.
    var members: [JSONTree.Member] { names.map { .init($0.name, $0.tree(self[$0])) } }

    /// All fields.
    var all: [JSONTree.Member] { ReminderField.allCases.map { .init($0.name, $0.tree(self[$0])) } }
}

extension ReminderAnswer {
    /// What is compared.
    func line(of type: String) -> String {
        let hasRule = type == "createReminder" || type == "updateReminder"
        let isOfRule = conflict.map { $0.day == nil } ?? false
        let parts: [JSONTree] = [
            .string(status.rawValue), .text(code), isReplayed ? .bool(true) : .null,
            status == .rejected ? .null : .integer(position),
            conflict.map { .string($0.day == nil ? "reminder" : "reminderOccurrence") } ?? .null,
            isOfRule ? .array(conflict?.fields.map(\.tree) ?? []) : .null,
            conflict?.serverRev.map { .integer($0) } ?? .null, hasRule ? .text(rule?.id.text) : .null,
            hasRule ? rule.map { .integer($0.rev) } ?? .null : .null,
        ]
        return parts.map(\.canonicalText).joined(separator: " ")
    }
}

extension ReminderConflictField {
    var tree: JSONTree {
        .object([
            .init("name", .string(name.name)), .init("base", name.tree(base)), .init("server", name.tree(server)),
            .init("local", name.tree(local)),
        ])
    }
}

extension ReminderEvent {
    /// What is compared.
    var line: String {
        func rule(_ name: String, _ rule: ReminderRule) -> String {
            let members: [JSONTree.Member] = [
                .init("id", .string(rule.id.text)), .init("clientId", .text(rule.clientID?.text)),
                .init("rev", .integer(rule.rev)),
            ]
            return ["reminder.\(name)", key?.text, JSONTree.object(members + rule.fields.all).canonicalText]
                .compactMap { $0 }.joined(separator: " ")
        }
        switch change {
        case .created(let new): return rule("created", new)
        case .updated(let new): return rule("updated", new)
        case .deleted(let id, let rev):
            let members: [JSONTree.Member] = [.init("id", .string(id.text)), .init("rev", .integer(rev))]
            return ["reminder.deleted", key?.text, JSONTree.object(members).canonicalText]
                .compactMap { $0 }.joined(separator: " ")
        case .occurrence(let day, let exception):
            return "reminder.occurrence_updated \(day.rule.text) \(exception.rev)"
        }
    }
}
