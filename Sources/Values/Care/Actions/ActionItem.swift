/// The result of one intent on one dose.
struct ItemOutcome {
    let dose: Identifier
    let verdict: DoseVerdict
    var after: Dose?
    var conflict: DoseConflict?
}

/// One intent of an action, with the data that the transition table needs.
struct ActionItem {
    /// The doses still to come that an action may take.
    enum Reach {
        /// None.
        case due
        /// Those whose day has come.
        case today
        case any
    }

    enum Kind {
        /// Follow the transition table.
        case act(Reach)
        /// Restore the state before, if nothing has changed since. With `isLate`, refuse.
        case undo(UndoEntry, of: Identifier, isLate: Bool)
        case acceptServer
        /// Set the intent whatever the status is.
        case keepLocal
        /// Keep the server's state and add the intent's note, or set the fields that the user chose.
        case merge(MergedFields?)
    }

    let dose: Identifier
    let kind: Kind
    let intent: DoseIntent
    let seenRev: Int64?
    /// When the intended dose was created, if known: its id may be reused.
    var createdAt: Timestamp?
    /// The member of the payload that gave the time; nil where it is the time of acting.
    var timePath: String?

    /// Whether the time was given for this dose.
    var isTimeDirect: Bool { timePath != ActionItem.ofAnother }

    /// The path of a time that another action gave.
    static let ofAnother = "payload.of"
}
