import Sync

/// How one action changed one dose, kept for its undo: what was before, and the revisions that the parts then got.
struct UndoEntry {
    let dose: Identifier
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

/// One event of a user's stream.
package struct CareEvent: Sendable {
    /// Its number.
    package let offset: Int64
    package let name: String
    /// The data, `_sync` included.
    package let data: JSONTree
}

/// A day as it was counted last.
package struct DayRecord: Sendable {
    package let counts: DayCounts
    package var streak: StreakRun
}

/// A note that an action added to a dose.
package struct NoteID: Hashable, Sendable {
    package let dose: Identifier
    /// The action's key.
    package let key: Identifier
}

/// All that the server knows of one user. A user's actions never touch another's.
package struct CareAccount {
    package let user: Identifier
    /// The user's zone.
    package var zone: String
    package internal(set) var doses: [Identifier: Dose] = [:]
    package internal(set) var notes: [NoteID: String] = [:]
    package internal(set) var days: [LocalDate: DayRecord] = [:]
    /// The last number of each device.
    package internal(set) var devices: [Identifier: Int64] = [:]
    package internal(set) var events: [CareEvent] = []
    var actions: [Identifier: StoredAction] = [:]
    /// What the events told of each dose, by revision; of two with one revision the later.
    var told: [Identifier: [Int64: JSONTree]] = [:]

    /// A user of whom nothing is known.
    init(user: Identifier, zone: String) {
        self.user = user
        self.zone = zone
    }

    /// How many actions are stored.
    package var actionCount: Int { actions.count }

    /// Keys of the actions whose conflicts the user has not settled yet, in the order of bytes.
    package var openConflicts: [Identifier] {
        actions.filter { !$0.value.pending.isEmpty && !$0.value.isResolved }.map(\.key).sorted()
    }

    /// The number of the last event.
    package var top: Int64 { events.last?.offset ?? 0 }

    /// The channel of the user's events; empty where the id has none.
    var channel: String {
        StreamName(form: .user, stream: StreamID(user: user.text, topic: "adherence")).format() ?? ""
    }

    /// The user's doses of a day.
    func doses(of day: LocalDate) -> [Dose] { doses.values.filter { $0.day == day } }
}
