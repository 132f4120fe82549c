import Bytes
import JSON

/// Why a payload is refused. It quotes nothing of the payload.
package struct InvalidAction: Error, Equatable, Sendable {
    /// The member at fault, such as `payload.occurrenceIds[3]`.
    package let path: String
    /// The fault.
    package let reason: String

    /// The member at `path` is wrong.
    package init(_ path: String, _ reason: String) {
        self.path = path
        self.reason = reason
    }
}

/// How a user resolves a conflict.
package enum ConflictChoice: String, CaseIterable, Sendable {
    /// Apply what the user wanted, whatever the server has.
    case keepLocal = "keep_local"
    /// Keep what the server has.
    case acceptServer = "accept_server"
    /// Keep the server's state and add the user's note, or set the fields that the user chose.
    case merge
}

/// The fields that a user chose when merging; nil means not chosen.
package struct MergedFields: Sendable {
    /// The status.
    package var status: DoseStatus?
    /// When the dose was taken.
    package var takenAt: SentTime?
    /// Why it was made up or skipped.
    package var reason: String?
    /// The note.
    package var note: String?

    /// Whether any part of the state is named.
    package var namesState: Bool { status != nil || takenAt != nil || reason != nil }
}

/// The doses of a bulk action.
package enum DoseSelection: Sendable {
    case doses([Identifier])
    /// The doses of a day (nil: today) that are still scheduled; optionally of one product or schedule.
    case criteria(day: LocalDate?, productID: String?, scheduleID: String?)
}

/// An action that a device requests.
package enum DoseAction: Sendable {
    /// When `takenAt` is nil, the device's `clientTime` counts.
    case markTaken(Identifier, takenAt: SentTime?, note: String?)
    case markMissed(Identifier, note: String?)
    case makeUp(Identifier, at: SentTime?, reason: String?, note: String?)
    case skip(Identifier, reason: String?, note: String?)
    case addNote(Identifier, text: String)
    /// Undoes the action with this key.
    case undo(Identifier)
    case bulkMarkAll(DoseSelection, takenAt: SentTime?, includesFuture: Bool)
    /// Resolves the conflicts of the action with this key.
    case resolve(of: Identifier, ConflictChoice, merged: MergedFields?)

    /// The names of all types on the wire.
    package static let types = [
        "markTaken", "markMissed", "makeUp", "skip", "addNote", "undo", "bulkMarkAll", "resolve",
    ]
    /// The most doses in one bulk action.
    package static let bulkMax = 200

    /// Reads an action. An error names the first wrong member, in the order of the specification.
    ///
    /// - Parameters:
    ///   - zone: the envelope's `tz`, used to find today's date.
    ///   - isKnownZone: whether a zone exists.
    package static func parse(
        type: String, payload: JSONTree?, zone: String? = nil, now: Timestamp, isKnownZone: (String) -> Bool
    ) throws(InvalidAction) -> DoseAction {
        guard types.contains(where: { $0.hasSameBytes(as: type) }) else {
            throw InvalidAction("type", "is not a type of action")
        }
        guard let payload, payload.isObject else { throw InvalidAction("payload", "must be an object") }
        let fields = PayloadReader(payload, path: "payload", now: now)
        switch type {
        case "undo": return .undo(try fields.identifier("targetKey"))
        case "resolve": return try resolve(fields)
        case "bulkMarkAll": return try bulk(fields, zone: zone, isKnownZone: isKnownZone)
        default: return try single(type, fields)
        }
    }

    private static func single(_ type: String, _ fields: PayloadReader) throws(InvalidAction) -> DoseAction {
        let dose = try fields.identifier("occurrenceId")
        switch type {
        case "markTaken":
            let takenAt = try fields.pastTime("takenAt")
            return .markTaken(dose, takenAt: takenAt, note: try fields.note("note"))
        case "makeUp":
            let at = try fields.pastTime(fields.has("at") ? "at" : "takenAt")
            let reason = try fields.reason("reason")
            return .makeUp(dose, at: at, reason: reason, note: try fields.note("note"))
        case "skip":
            let reason = try fields.reason("reason")
            return .skip(dose, reason: reason, note: try fields.note("note"))
        case "addNote":
            let name = fields.has("text") || !fields.has("note") ? "text" : "note"
            guard let text = try fields.note(name) else { throw fields.invalid(name, "is required") }
            return .addNote(dose, text: text)
        default:
            return .markMissed(dose, note: try fields.note("note"))
        }
    }

    private static func bulk(
        _ fields: PayloadReader, zone: String?, isKnownZone: (String) -> Bool
    ) throws(InvalidAction) -> DoseAction {
        let selection: DoseSelection
        var includesFuture = false
        switch (fields.has("occurrenceIds"), fields.has("criteria")) {
        case (false, false): throw fields.invalid("occurrenceIds", "is required, or criteria")
        case (true, true): throw fields.invalid("criteria", "must not stand beside occurrenceIds")
        case (true, false): selection = .doses(try fields.identifiers("occurrenceIds", max: bulkMax))
        case (false, true):
            let criteria = try fields.object("criteria", of: ["date", "productId", "scheduleId", "includeFuture"])
            let day = try criteria.day("date")
            let product = try criteria.string("productId")
            let schedule = try criteria.string("scheduleId")
            includesFuture = try criteria.boolean("includeFuture") ?? false
            if day == nil, let zone, !isKnownZone(zone) {
                throw InvalidAction("tz", "is no zone that is known here")
            }
            selection = .criteria(day: day, productID: product, scheduleID: schedule)
        }
        let takenAt = try fields.pastTime("takenAt")
        if case .doses = selection { includesFuture = try fields.boolean("includeFuture") ?? false }
        return .bulkMarkAll(selection, takenAt: takenAt, includesFuture: includesFuture)
    }

    private static func resolve(_ fields: PayloadReader) throws(InvalidAction) -> DoseAction {
        let target = try fields.identifier("of")
        guard let choice = ConflictChoice(rawValue: try fields.requiredString("choice")) else {
            throw fields.invalid("choice", "must be keep_local, accept_server or merge")
        }
        guard fields.has("merged") else { return .resolve(of: target, choice, merged: nil) }
        let named = try fields.object("merged", of: ["status", "takenAt", "reason", "note"])
        var merged = MergedFields()
        if let text = try named.string("status") {
            guard let status = DoseStatus(rawValue: text), status != .cancelled else {
                throw named.invalid("status", "must be scheduled, taken, missed, made_up or skipped")
            }
            merged.status = status
        }
        merged.takenAt = try named.pastTime("takenAt")
        merged.reason = try named.reason("reason")
        merged.note = try named.note("note")
        return .resolve(of: target, choice, merged: merged)
    }
}
