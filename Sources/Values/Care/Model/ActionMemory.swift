import JSON

/// What a decided action left behind, as a device keeps it: by this a later `undo` or `resolve` is judged.
package struct ActionMemory: Sendable {
    /// Its type.
    package let type: String
    /// Whether the action is on one dose.
    package var isSingle: Bool
    var undo: [UndoEntry]
    var pending: [PendingIntent]
    /// When it was done.
    package var createdAt: Timestamp
    /// Whether it has been taken back.
    package var isUndone: Bool

    init(
        type: String, isSingle: Bool, undo: [UndoEntry], pending: [PendingIntent], createdAt: Timestamp, isUndone: Bool
    ) {
        self.type = type
        self.isSingle = isSingle
        self.undo = undo
        self.pending = pending
        self.createdAt = createdAt
        self.isUndone = isUndone
    }

    /// The doses that it changed.
    package var doses: [Identifier] { undo.map(\.dose) }

    /// The hub has told the revisions that the action made.
    package mutating func tell(_ revisions: [Identifier: Int64]) {
        undo = undo.map { entry in
            guard let rev = revisions[entry.dose] else { return entry }
            // A note that was there already is no change: its revision is an older one.
            let isNoteOld = entry.statusRev != nil && entry.noteRev != entry.statusRev
            return UndoEntry(
                dose: entry.dose, createdAt: entry.createdAt, state: entry.state,
                statusRev: entry.statusRev.map { _ in rev }, hasNote: entry.hasNote, noteBefore: entry.noteBefore,
                noteRev: entry.noteRev.map { isNoteOld ? $0 : rev })
        }
    }

    /// A conflict that the hub has told, for the person's decision.
    ///
    /// - Parameter conflicts: the members `conflict` of the answer, or of its items.
    package mutating func tell(conflicts: [JSONTree]) {
        pending = conflicts.compactMap { conflict in
            guard let id = conflict["entity"]?["id"]?.string, let local = conflict["local"] else { return nil }
            var state: DoseState?
            if let text = local["status"]?.string, let status = DoseStatus(rawValue: text) {
                state = DoseState(
                    status, takenAt: local["takenAt"]?.string.flatMap(TimeText.instant), reason: local["reason"]?.string
                )
            }
            return PendingIntent(
                dose: Identifier(id), intent: DoseIntent(state, note: local["note"]?.string),
                rev: conflict["server"]?["rev"]?.integer ?? 0, createdAt: nil)
        }
    }
}

// MARK: Kept as JSON

extension ActionMemory {
    /// Nothing but a type: an action whose doses are not known.
    package init(type: String, isSingle: Bool, createdAt: Timestamp) {
        self.init(type: type, isSingle: isSingle, undo: [], pending: [], createdAt: createdAt, isUndone: false)
    }

    /// What is kept of it, without conflicts, which the answer has.
    package var tree: JSONTree {
        .object([
            .init("type", .string(type)), .init("isSingle", .bool(isSingle)),
            .init("createdAt", .integer(createdAt.microseconds)), .init("isUndone", .bool(isUndone)),
            .init("undo", .array(undo.map(\.tree))),
        ])
    }

    /// From what was kept; nil where it is nothing of the kind.
    package init?(_ tree: JSONTree) {
        guard let type = tree["type"]?.string, let at = tree["createdAt"]?.integer, case .array(let undo) = tree["undo"]
        else { return nil }
        self.init(
            type: type, isSingle: tree["isSingle"]?.flag ?? true, undo: undo.compactMap(UndoEntry.init), pending: [],
            createdAt: Timestamp(microseconds: at), isUndone: tree["isUndone"]?.flag ?? false)
    }
}

extension UndoEntry {
    fileprivate var tree: JSONTree {
        func number(_ value: Int64?) -> JSONTree { value.map { .integer($0) } ?? .null }
        let before = state.map { state in
            JSONTree.object([
                .init("status", .string(state.status.rawValue)), .init("takenAt", number(state.takenAt?.microseconds)),
                .init("offset", number(state.takenOffset.map(Int64.init))), .init("reason", .text(state.reason)),
            ])
        }
        return .object([
            .init("dose", .string(dose.text)), .init("createdAt", .integer(createdAt.microseconds)),
            .init("state", before ?? .null), .init("statusRev", number(statusRev)), .init("hasNote", .bool(hasNote)),
            .init("noteBefore", .text(noteBefore)), .init("noteRev", number(noteRev)),
        ])
    }

    fileprivate init?(_ tree: JSONTree) {
        guard let dose = tree["dose"]?.string, let created = tree["createdAt"]?.integer else { return nil }
        let before = tree["state"].flatMap { state in
            state["status"]?.string.flatMap(DoseStatus.init(rawValue:)).map { status in
                DoseState(
                    status, takenAt: state["takenAt"]?.integer.map(Timestamp.init(microseconds:)),
                    takenOffset: state["offset"]?.integer.map { Int($0) }, reason: state["reason"]?.string)
            }
        }
        self.init(
            dose: Identifier(dose), createdAt: Timestamp(microseconds: created), state: before,
            statusRev: tree["statusRev"]?.integer, hasNote: tree["hasNote"]?.flag ?? false,
            noteBefore: tree["noteBefore"]?.string, noteRev: tree["noteRev"]?.integer)
    }
}
