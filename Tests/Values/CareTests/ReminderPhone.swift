import Care

/// A device that is mostly without a network: what it last heard of the server, and what its person has done since.
struct ReminderPhone {
    /// An action that waits, with what the device knew when the person acted.
    struct Queued {
        let envelope: ReminderEnvelope
        let seen: ReminderRule?
    }

    /// A conflict on the screen, with the key of its action.
    struct Dialog {
        let key: Identifier
        let conflict: ReminderConflict
        /// How often the person has decided in vain.
        let round: Int
    }

    let name: Identifier
    var rules: [Identifier: ReminderRule] = [:]
    var exceptions: [ReminderDay: ReminderException] = [:]
    var position: Int64 = 0
    var queue: [Queued] = []
    var dialogs: [Dialog] = []
    /// Keys of all conflicts that were ever shown, each as often as it was.
    var shown: [Identifier] = []
    private var made = 0

    init(_ name: Identifier) {
        self.name = name
    }

    mutating func key() -> Identifier {
        made += 1
        return Identifier("\(name.text)-\(made)")
    }

    mutating func act(_ action: ReminderAction, on seen: ReminderRule? = nil) {
        queue.append(Queued(envelope: ReminderEnvelope(key(), device: name, action), seen: seen))
    }

    /// What the person sees: the server's rules with the queue folded over them.
    var shownRules: [Identifier: ReminderRule] {
        var shown = rules
        for item in queue {
            switch item.envelope.action {
            case .create(let id?, _, let fields):
                if shown[id] == nil, !shown.values.contains(where: { $0.clientID == id }) {
                    shown[id] = ReminderRule(id: id, fields: fields)
                }
            case .update(let id, let changes, _):
                if let rule = shown[id] {
                    shown[id]?.fields = rule.fields.setting(changes, changes.names)
                }
            case .delete(let id, _): shown[id] = nil
            default: break
            }
        }
        return shown
    }

    // MARK: Hearing

    mutating func hear(_ event: ReminderEvent) {
        guard event.offset == position + 1 else { return }
        position = event.offset
        switch event.change {
        case .created(let rule), .updated(let rule): rules[rule.id] = rule
        case .deleted(let id, _):
            rules[id] = nil
            exceptions = exceptions.filter { $0.key.rule != id }
        case .occurrence(let day, let exception): exceptions[day] = exception
        }
    }

    mutating func read(_ book: ReminderBook) {
        (rules, exceptions, position) = (book.rules, book.exceptions, book.top)
    }

    /// The answer to the first of the queue.
    mutating func hear(_ answer: ReminderAnswer) {
        let item = queue.removeFirst()
        guard answer.status == .conflict, let conflict = answer.conflict else { return }
        shown.append(answer.key)
        var round = 0
        if case .resolve(let of, _, _, _) = item.envelope.action {
            round = (rounds[of] ?? 0) + 1
            rounds[answer.key] = round
        }
        dialogs.append(Dialog(key: answer.key, conflict: conflict, round: round))
    }

    private var rounds: [Identifier: Int] = [:]
}
