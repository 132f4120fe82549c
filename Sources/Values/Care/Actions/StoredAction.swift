/// How an action changed a dose, kept for undo: the values before, and the revisions after.
struct UndoEntry {
    let dose: Identifier
    /// When the dose was created: its id may be reused.
    let createdAt: Timestamp
    /// The state before, if the action set it.
    let state: DoseState?
    let statusRev: Int64?
    /// Whether the action added a note, and the note before.
    let hasNote: Bool
    let noteBefore: String?
    let noteRev: Int64?
}

/// An intent that met a conflict, kept for its resolution, with the dose's revision then (0 when there was no dose).
struct PendingIntent {
    let dose: Identifier
    let intent: DoseIntent
    let rev: Int64
    /// When the dose was created; nil when there was none.
    let createdAt: Timestamp?
}

/// A decided action.
struct StoredAction {
    let type: String
    let content: Identifier
    let answer: CareAnswer
    /// Whether the action and its answer are for one dose.
    let isSingle: Bool
    let undo: [UndoEntry]
    let pending: [PendingIntent]
    let createdAt: Timestamp
    /// The device, and the number that the action has used up.
    var device: Identifier?
    var number: Int64?
    var isUndone = false
    var isResolved = false
}
