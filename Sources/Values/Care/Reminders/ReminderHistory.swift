/// What rules were at each of their revisions, who made it, and what devices asked for and found done.
struct ReminderHistory: Sendable {
    private var revisions: [Identifier: [Int64: Revision]] = [:]
    /// By rule, in order.
    private var found: [Identifier: [Found]] = [:]

    private struct Revision {
        let fields: ReminderFields
        let device: Identifier?
    }

    private struct Found {
        let rev: Int64
        let device: Identifier
        let fields: ReminderFields
    }

    /// What a rule is at a revision, and which device has made it.
    mutating func add(_ fields: ReminderFields, rev: Int64, of rule: Identifier, by device: Identifier?) {
        revisions[rule, default: [:]][rev] = Revision(fields: fields, device: device)
    }

    /// Notes what a device wants and another one did before, where the device knew an older revision of the rule.
    mutating func find(
        _ changes: ReminderFields, in rule: ReminderRule, by device: Identifier?, knowing base: ReminderMerge.Base
    ) {
        guard let device else { return }
        var seen: ReminderFields?
        if case .known(let fields, _) = base { seen = fields }
        let done = changes.names.filter {
            changes[$0] == rule.fields[$0] && (seen == nil || seen?[$0] != changes[$0])
        }
        guard !done.isEmpty else { return }
        let fields = ReminderFields().setting(changes, done)
        found[rule.id, default: []].append(Found(rev: rule.rev, device: device, fields: fields))
    }

    /// Whether anybody but the device itself changed a rule after a revision.
    func isChanged(_ rule: ReminderRule, since rev: Int64, but own: Identifier?) -> Bool {
        guard rev < rule.rev else { return false }
        return (rev + 1...rule.rev).contains { later in
            guard let device = revisions[rule.id]?[later]?.device else { return true }
            return device != own
        }
    }

    /// What a device knew of a rule when it acted: the rule of the revision that it names, with what the device itself has
    /// changed since, or asked for and found done. So a queue may name one revision for several changes, and none of them
    /// conflicts with another. What others have changed since it has not seen, also where they changed it back.
    func base(_ rev: Int64?, of rule: ReminderRule, for device: Identifier?) -> ReminderMerge.Base {
        guard let rev else { return .none }
        guard let known = revisions[rule.id], var seen = known[rev]?.fields else { return .unknown }
        var unseen: Set<ReminderField> = []
        guard rev < rule.rev else { return .known(seen, unseen: unseen) }
        for later in rev + 1...rule.rev {
            if let after = known[later], let before = known[later - 1] {
                let changed = after.fields.differing(from: before.fields)
                if let device, after.device == device {
                    seen = seen.setting(after.fields, changed)
                    unseen.subtract(changed)
                } else {
                    unseen.formUnion(changed)
                }
            }
            guard let device else { continue }
            for done in found[rule.id, default: []] where done.rev == later && done.device == device {
                seen = seen.setting(done.fields, done.fields.names)
                unseen.subtract(done.fields.names)
            }
        }
        return .known(seen, unseen: unseen)
    }
}
