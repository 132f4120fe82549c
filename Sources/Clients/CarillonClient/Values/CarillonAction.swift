import Foundation
import JSON

/// What the person does: a type of the sync wire and its payload. The client makes key, ids and number.
public struct CarillonAction: Sendable, Equatable {
    /// The type, such as `markTaken`.
    public let type: String
    /// Its members.
    public var payload: [String: CarillonPayload]

    /// Any action that the hub knows.
    public init(_ type: String, _ payload: [String: CarillonPayload] = [:]) {
        self.type = type
        self.payload = payload
    }

    /// The dose was taken; without `at`, now.
    public static func markTaken(_ dose: String, at: Date? = nil, note: String? = nil) -> CarillonAction {
        made("markTaken", ["occurrenceId": .string(dose)], ["takenAt": at.map { .date($0) }, "note": text(note)])
    }

    /// The dose was missed. Its window must have ended.
    public static func markMissed(_ dose: String, note: String? = nil) -> CarillonAction {
        made("markMissed", ["occurrenceId": .string(dose)], ["note": text(note)])
    }

    /// The dose was taken after its window.
    public static func makeUp(
        _ dose: String, at: Date? = nil, reason: String? = nil, note: String? = nil
    ) -> CarillonAction {
        made(
            "makeUp", ["occurrenceId": .string(dose)],
            ["at": at.map { .date($0) }, "reason": text(reason), "note": text(note)])
    }

    /// The dose is not taken on purpose.
    public static func skip(_ dose: String, reason: String? = nil, note: String? = nil) -> CarillonAction {
        made("skip", ["occurrenceId": .string(dose)], ["reason": text(reason), "note": text(note)])
    }

    /// A note on a dose. It never conflicts.
    public static func addNote(_ dose: String, _ text: String) -> CarillonAction {
        CarillonAction("addNote", ["occurrenceId": .string(dose), "text": .string(text)])
    }

    /// These doses were taken, up to 200.
    public static func markAllTaken(_ doses: [String]) -> CarillonAction {
        CarillonAction("bulkMarkAll", ["occurrenceIds": .array(doses.map { .string($0) })])
    }

    private static func text(_ value: String?) -> CarillonPayload? { value.map { .string($0) } }

    private static func made(
        _ type: String, _ needed: [String: CarillonPayload], _ more: [String: CarillonPayload?]
    ) -> CarillonAction {
        CarillonAction(type, needed.merging(more.compactMapValues { $0 }) { first, _ in first })
    }
}

/// What became of an act.
public struct CarillonReceipt: Sendable, Equatable {
    /// The action's key, for `undo`.
    public let key: String
    /// The id of what it makes.
    public let id: String?
    /// What the hub will probably answer: `applied`, `noop`, `conflict` or `rejected`; nil where the device cannot tell.
    public let status: String?
    /// The reason of a conflict or rejection, such as `late`: then `makeUp` is the way.
    public let code: String?
}

/// An action of the queue, as an app sees it.
public struct CarillonQueued: Sendable, Equatable, Identifiable {
    /// Its key.
    public let key: String
    /// Its type.
    public let type: String
    /// Its members.
    public let payload: CarillonPayload
    /// When the person acted, by the device's clock.
    public let clientTime: String
    /// Its number; nil before it was sent.
    public let number: Int64?
    /// How often the hub asked to wait.
    public let retries: Int
    /// The reason of a conflict or rejection.
    public let code: String?
    /// The reason in words.
    public let message: String?
    /// The member at fault.
    public let path: String?
    /// What the hub said of a conflict, or of the first of several: `entity`, `server`, `base`, `local`, `fields`,
    /// `options`, `merged`.
    public let conflict: CarillonPayload?
    /// Of an action on several doses: those that are in conflict, or that the hub refuses.
    public let items: CarillonPayload?

    /// Its key.
    public var id: String { key }

    init(_ row: QueuedAction) {
        key = row.key
        type = row.type
        payload = CarillonPayload(row.payload)
        clientTime = row.clientTime
        number = row.n
        retries = Int(row.retries)
        // Each is told once: what is refused is a failure, once the conflicts are decided.
        let items = row.answered(row.state == .parked ? "conflict" : "rejected")
        // The answer tells of the first conflict, which is perhaps not among these.
        let answered = row.more.answer?["code"]?.string
        let first = items.first { $0["code"]?.string.map { $0 != answered } ?? false } ?? row.more.answer
        code = first?["code"]?.string
        message = first?["message"]?.string
        path = first?["path"]?.string
        conflict = (row.more.answer?["conflict"] ?? items.first?["conflict"]).map { CarillonPayload($0) }
        self.items =
            items.isEmpty ? row.more.answer?["items"].map { CarillonPayload($0) } : CarillonPayload(.array(items))
    }
}
