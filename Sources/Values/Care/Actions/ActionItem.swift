/// What becomes of one intent on one dose.
struct ItemOutcome {
    let dose: Identifier
    let verdict: DoseVerdict
    /// The dose as it then is; nil: there is none.
    var after: Dose?
    var conflict: DoseConflict?
}

/// One intent of an action, with what its table needs to know.
struct ActionItem {
    enum Kind {
        /// By the table of transitions; `onlyDue`: doses that are still to come are left alone.
        case act(onlyDue: Bool)
        /// Back to what was before, while nothing has touched it; `isLate`: not any more.
        case undo(UndoEntry, of: Identifier, isLate: Bool)
        case acceptServer
        /// The intent, whatever the status is.
        case keepLocal
        /// The server's state with the intent's note, or the fields that the user chose.
        case merge(MergedFields?)
    }

    let dose: Identifier
    let kind: Kind
    let intent: DoseIntent
    /// The revision that the device had seen.
    let seenRev: Int64?
    /// When the dose that was meant was made, where that is known: an id may come again.
    var createdAt: Timestamp?
    /// The member of the payload that the time was read from, or clientTime; nil: it is the server's.
    var timePath: String?

    /// Whether the time was said of this dose.
    var isTimeDirect: Bool { timePath != "clientTime" && timePath != ActionItem.ofAnother }

    /// The path of a time that another action named.
    static let ofAnother = "payload.of"
}
