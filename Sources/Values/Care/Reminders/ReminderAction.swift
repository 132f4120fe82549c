/// A reminder's action as a device asks for it.
package enum ReminderAction: Hashable, Sendable {
    /// An id that begins with `tmp-` is a client's name of the rule.
    case create(id: Identifier?, clientID: Identifier?, ReminderFields)
    case update(Identifier, ReminderFields, base: Int64?)
    case delete(Identifier, base: Int64?)
    /// Until that second; else for so many minutes.
    case snooze(ReminderDay, until: Int?, minutes: Int?)
    case set(ReminderDay, ReminderDayChange, base: Int64?)
    /// Decides the conflict of the action of that key.
    case resolve(Identifier, ConflictChoice, merged: ReminderFields?, base: Int64?)

    static let temporary = "tmp-"
}

/// What becomes of one day's reminder.
package enum ReminderDayChange: Hashable, Sendable {
    case cancel, bringBack
    /// To that local second; nil: to where the rule has it.
    case move(Int?)
}

/// An action and what identifies it.
package struct ReminderEnvelope: Hashable, Sendable {
    /// Equal for each repeat.
    package let key: Identifier
    /// The device, where it tells.
    package let device: Identifier?
    /// What is asked.
    package let action: ReminderAction

    /// An envelope.
    package init(_ key: Identifier, device: Identifier? = nil, _ action: ReminderAction) {
        self.key = key
        self.device = device
        self.action = action
    }
}

/// A field that two devices changed.
package struct ReminderConflictField: Hashable, Sendable {
    /// The field.
    package let name: ReminderField
    /// What the device had seen; absent where nobody knows.
    package let base: ReminderValue
    /// What the server has.
    package let server: ReminderValue
    /// What the device wants.
    package let local: ReminderValue
}

/// What a person must decide.
package struct ReminderConflict: Hashable, Sendable {
    /// `field`, `state` or `gone`.
    package let code: String
    /// The rule.
    package let id: Identifier
    /// The day, of a conflict about one.
    package var day: LocalDate?
    /// The rule of now; nil where there is none.
    package let server: ReminderRule?
    /// The revision that the person is shown: the rule's, or the day's.
    package var serverRev: Int64?
    /// What the person wants; empty for a deletion.
    package let local: ReminderFields
    /// The fields at odds.
    package let fields: [ReminderConflictField]
    /// What `merge` makes of it.
    package let merged: ReminderFields?
}

/// The answer to an action.
package struct ReminderAnswer: Hashable, Sendable {
    /// The action's key.
    package let key: Identifier
    /// The result.
    package var status: CareStatus
    /// The reason of a conflict or rejection.
    package var code: String?
    /// The rule afterwards.
    package var rule: ReminderRule?
    /// The conflict.
    package var conflict: ReminderConflict?
    /// The last event's number afterwards.
    package var position: Int64 = 0
    /// Whether this is a stored answer to a repeat.
    package var isReplayed = false
}

/// One event of the stream of reminders.
package struct ReminderEvent: Hashable, Sendable {
    /// What it tells.
    package enum Change: Hashable, Sendable {
        case created(ReminderRule)
        case updated(ReminderRule)
        case deleted(Identifier, rev: Int64)
        case occurrence(ReminderDay, ReminderException)
    }

    /// Its number.
    package let offset: Int64
    /// The key of the action that caused it.
    package let key: Identifier?
    /// What it tells.
    package let change: Change
}
