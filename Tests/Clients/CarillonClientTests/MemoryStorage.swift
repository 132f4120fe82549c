import JSON

@testable import CarillonClient

/// A storage in memory, which fails when told to.
final class MemoryStorage: MirrorStorage {
    private(set) var mirror: Mirror
    var isLeading = true
    /// The writes that fail, by their numbers from 1.
    var failures: Set<Int> = []
    private(set) var writes = 0

    init(_ mirror: Mirror = Mirror(meta: [MirrorKey.device: "phone"])) {
        self.mirror = mirror
    }

    func write<Result>(isFenced: Bool, _ rule: (inout Mirror) throws -> Result) throws -> Result {
        guard isLeading || !isFenced else { throw CarillonError.notLeading }
        writes += 1
        var next = mirror
        let result = try rule(&next)
        guard !failures.contains(writes) else { throw CarillonError.storage("full") }
        _ = next.takeChanges()
        mirror = next
        return result
    }
}

extension Mirror {
    /// The keys of actions on doses that count.
    var counted: [String] { counting(.doses).map(\.key) }
}

extension QueuedAction {
    /// A row as the person has made it.
    static func made(
        _ key: String, _ type: String = "markTaken", of dose: String = "d1", base: Int64? = nil
    ) -> QueuedAction {
        var row = QueuedAction(
            key: key, type: type, payload: .object([.init("occurrenceId", .string(dose))]),
            clientTime: "2025-11-20T08:00:00+00:00", zone: "UTC")
        row.entities = ["dose:\(dose)"]
        row.base = base.map { .object([.init("rev", .integer($0))]) }
        return row
    }
}

extension Entity {
    /// A dose of 20 November 2025, 08:00 to 12:00 UTC, as the hub tells it.
    static func dose(_ id: String, _ status: String = "scheduled", rev: Int64 = 1, offset: Int64 = 1) -> Entity {
        Entity(.dose, id, offset: offset, value: doseTree(id, status, rev: rev), statusRev: rev, noteRev: 1)
    }

    static func doseTree(_ id: String, _ status: String, rev: Int64) -> JSONTree {
        let isTaken = status == "taken"
        let text = """
            {"id": "\(id)", "userId": "u", "status": "\(status)", "rev": \(rev), "hasNote": false, "note": null,
             "takenAt": \(isTaken ? "\"2025-11-20T08:30:00+00:00\"" : "null"), "reason": null,
             "scheduledAt": "2025-11-20T08:00:00+00:00", "timeLocal": "2025-11-20T08:00:00+00:00", "timezone": "UTC",
             "localDate": "2025-11-20", "windowStart": null, "windowEnd": "2025-11-20T12:00:00+00:00",
             "productName": "Ramipril", "asNeeded": false, "createdAt": "2025-11-01T00:00:00+00:00"}
            """
        return (try? JSONTree(text)) ?? .null
    }
}

extension JSONTree {
    /// The tree of a text that is JSON.
    static func parsed(_ text: String) -> JSONTree { (try? JSONTree(text)) ?? .string("no JSON: \(text)") }
}
