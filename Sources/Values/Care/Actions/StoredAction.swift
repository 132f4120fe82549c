/// How one action changed one dose, kept for its undo: what was before, and the revisions that the parts then got.
struct UndoEntry {
    let dose: Identifier
    /// When the dose was made: an id may come again.
    let createdAt: Timestamp
    /// The state before, where the action set it.
    let state: DoseState?
    let statusRev: Int64?
    /// Whether the action added a note, and the note before.
    let hasNote: Bool
    let noteBefore: String?
    let noteRev: Int64?
}

/// An intent that met a conflict, kept for its resolution, with the dose's revision then (0: there was none).
struct PendingIntent {
    let dose: Identifier
    let intent: DoseIntent
    let rev: Int64
    /// When the dose was made; nil: there was none.
    let createdAt: Timestamp?
}

/// An action that was decided.
struct StoredAction {
    let type: String
    let content: Identifier
    let answer: ActionAnswer
    /// Whether it is of one dose, and answers so.
    let isSingle: Bool
    let undo: [UndoEntry]
    let pending: [PendingIntent]
    let createdAt: Timestamp
    var isUndone = false
    var isResolved = false
}
