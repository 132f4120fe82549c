import JSON

/// A field of a reminder rule that people change.
package enum ReminderField: Int, CaseIterable, Sendable {
    case product, stack, appliesTo, preset, label, time, zone, zoneMode, repeats, days, snoozeMinutes, delivery,
        enabled,
        schedule

    /// Its name in JSON.
    package var name: String { Self.names[rawValue] }

    /// Whether a change may take its value away; of any other field, a change without a value says nothing.
    var mayBeMissing: Bool {
        switch self {
        case .preset, .label, .days, .snoozeMinutes, .schedule: true
        default: false
        }
    }

    private static let names = [
        "productId", "stackId", "appliesTo", "preset", "label", "time", "timezone", "tzMode", "repeat", "repeatOn",
        "snoozeMinutes", "delivery", "enabled", "scheduleId",
    ]
}

/// What a field says.
package enum ReminderValue: Hashable, Sendable {
    /// Nothing.
    case absent
    /// Compared by bytes.
    case text(Identifier)
    case number(Int)
    /// ISO weekdays.
    case days([Int])
    case flag(Bool)

    /// The value of a text.
    package static func text(_ text: String) -> ReminderValue { .text(Identifier(text)) }
}

/// Fields of a rule: all of them, or those that a change names. A change may name a field to take its value away.
package struct ReminderFields: Sendable {
    /// By the fields' order; nil: not named.
    private var values: [ReminderValue?] = Array(repeating: nil, count: ReminderField.allCases.count)

    /// These fields.
    package init(_ values: [ReminderField: ReminderValue] = [:]) {
        for (field, value) in values { self.values[field.rawValue] = value }
    }

    /// A field's value.
    package subscript(field: ReminderField) -> ReminderValue {
        get { values[field.rawValue] ?? .absent }
        set { values[field.rawValue] = newValue }
    }

    /// The fields that are named, in order.
    package var names: [ReminderField] { ReminderField.allCases.filter { values[$0.rawValue] != nil } }

    /// With those of `changes` that `names` allows.
    package func setting(_ changes: ReminderFields, _ names: [ReminderField]) -> ReminderFields {
        var fields = self
        for name in names { fields[name] = changes[name] }
        return fields
    }

    /// What differs from `other`, of all fields.
    package func differing(from other: ReminderFields) -> [ReminderField] {
        ReminderField.allCases.filter { self[$0] != other[$0] }
    }
}

extension ReminderFields: Hashable {
    /// A field that is named without a value is as one that is not named.
    package static func == (left: ReminderFields, right: ReminderFields) -> Bool {
        ReminderField.allCases.allSatisfy { left[$0] == right[$0] }
    }

    /// Hashes the values.
    package func hash(into hasher: inout Hasher) {
        for field in ReminderField.allCases { hasher.combine(self[field]) }
    }
}

/// What becomes of a change when it meets the rule of now: a merge of three sides, field by field.
package struct ReminderMerge: Sendable {
    /// What the device knew of the rule.
    package enum Base: Sendable {
        /// The device names no revision: its change goes before what is there.
        case none
        /// Nobody knows the rule of that revision any more.
        case unknown
        /// `unseen`: what others have changed since, be it back to what it was.
        case known(ReminderFields, unseen: Set<ReminderField>)
    }

    /// Fields that take the wanted value.
    package private(set) var changed: [ReminderField] = []
    /// Fields that both sides have changed, each to a value of its own.
    package private(set) var conflicts: [ReminderField] = []

    /// Meets `server` with a change. A field that the change leaves as the device knew it was sent along, and says nothing.
    package init(_ wanted: ReminderFields, onto server: ReminderFields, since base: Base) {
        for field in wanted.names where wanted[field] != server[field] {
            switch base {
            case .none: changed.append(field)
            case .unknown: conflicts.append(field)
            case .known(let seen, let unseen):
                if wanted[field] == seen[field] { continue }
                let isAsKnown = server[field] == seen[field] && !unseen.contains(field)
                if isAsKnown { changed.append(field) } else { conflicts.append(field) }
            }
        }
    }
}

extension ReminderFields {
    /// The fields that an object names; a member that is null takes its value away.
    package init(_ tree: JSONTree) {
        self.init()
        guard case .object(let members) = tree else { return }
        for member in members {
            guard let field = ReminderField.allCases.first(where: { $0.name == member.name }) else { continue }
            self[field] = ReminderValue(member.value, of: field)
        }
    }

    /// All fields as the hub writes them, absent ones as null.
    package var members: [JSONTree.Member] {
        ReminderField.allCases.map { JSONTree.Member($0.name, self[$0].tree(of: $0)) }
    }
}

extension ReminderValue {
    /// The value of a member. What a field cannot be is absent.
    init(_ tree: JSONTree, of field: ReminderField) {
        switch (tree, field) {
        case (.string(let text), .time):
            let parts = text.split(separator: ":").compactMap { Int($0) }
            guard parts.count >= 2, (0..<24).contains(parts[0]), (0..<60).contains(parts[1]) else {
                self = .absent
                return
            }
            self = .number(parts[0] * 60 + parts[1])
        case (.string(let text), _): self = .text(text)
        case (.bool(let flag), _): self = .flag(flag)
        case (.array(let days), _): self = .days(days.compactMap { $0.integer.map { Int($0) } })
        case (.number, _): self = tree.integer.map { .number(Int($0)) } ?? .absent
        default: self = .absent
        }
    }

    func tree(of field: ReminderField) -> JSONTree {
        switch self {
        case .absent: return .null
        case .text(let text): return .string(text.text)
        case .flag(let flag): return .bool(flag)
        case .days(let days): return .array(days.map { .integer(Int64($0)) })
        case .number(let number):
            guard field == .time else { return .integer(Int64(number)) }
            func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
            return .string("\(two(number / 60)):\(two(number % 60))")
        }
    }
}
