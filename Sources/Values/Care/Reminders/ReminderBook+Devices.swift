import JSON

// A device's view: rules as the hub told them.

extension ReminderBook {
    /// A rule of the hub.
    package mutating func adopt(_ rule: ReminderRule) {
        rules[rule.id] = rule
        remember(rule.fields, rev: rule.rev, of: rule.id)
        if let name = rule.clientID { aliases[name] = rule.id }
    }

    /// What a rule was when the person saw it.
    package mutating func remember(_ fields: ReminderFields, rev: Int64, of rule: Identifier) {
        revisions[rule, default: [:]][rev] = Revision(fields: fields, device: nil)
    }

    /// A day that differs from its rule.
    package mutating func adopt(_ exception: ReminderException, of day: ReminderDay) {
        exceptions[day] = exception
    }

    /// The second at which a day's reminder comes, by rule, exception and snooze.
    package func shownStart(of day: ReminderDay) -> Int? {
        guard let rule = rules[day.rule] else { return nil }
        let start = rule.start(on: day.day, exceptions[day], in: zone(of: rule))
        return max(start, exceptions[day]?.snoozedUntil ?? start)
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
