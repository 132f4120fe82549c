import Foundation
import Store
import Testing

/// An event in the log.
struct LoggedEvent {
    let user: String
    let topic: String
    let offset: Int64
    let name: String
    let data: [String: Any]

    init(_ row: [String?]) throws {
        let texts = row.compactMap { $0 }
        try #require(texts.count == 5)
        user = texts[0]
        topic = texts[1]
        offset = try #require(Int64(texts[2]))
        name = texts[3]
        data = try #require(JSONSerialization.jsonObject(with: Data(texts[4].utf8)) as? [String: Any])
    }
}

/// What a device makes of a snapshot and its later events, as Sources/Values/Sync/README.md prescribes.
struct SnapshotView: Equatable {
    private let subject: SnapshotSubject
    /// The position of the snapshot.
    let offset: Int64
    private var doses: [String: NSDictionary] = [:]
    private var days: [String: NSDictionary] = [:]
    private var stats: NSDictionary = [:]
    private var rules: [String: NSDictionary] = [:]
    private var exceptions: [String: NSDictionary] = [:]

    init(_ subject: SnapshotSubject, _ snapshot: Snapshot) throws {
        self.subject = subject
        offset = snapshot.offset
        let body = try JSONSerialization.jsonObject(with: Data(snapshot.body))
        switch subject {
        case .day(let day):
            let body = try #require(body as? [String: Any])
            // Notes are in no event.
            doses = try Self.index(body["occurrences"], by: "id").mapValues { Self.without(["note"], $0) }
            days = [try #require(day): try #require(body["summary"] as? NSDictionary)]
            stats = try #require(body["stats"] as? NSDictionary)
        case .month:
            days = try Self.index(body, by: "date")
        case .reminders:
            let body = try #require(body as? [String: Any])
            rules = try Self.index(body["items"], by: "id").mapValues {
                Self.without(["nextOccurrences", "upcoming"], $0)
            }
            exceptions = try Self.index(body["occurrences"], by: "occurrenceId")
        case .occurrence: Issue.record("not followed by events")
        }
    }

    static func == (left: SnapshotView, right: SnapshotView) -> Bool {
        left.doses == right.doses && left.days == right.days && left.stats == right.stats && left.rules == right.rules
            && left.exceptions == right.exceptions
    }

    mutating func apply(_ event: LoggedEvent) {
        let data = event.data
        switch event.name {
        case "occurrence.created", "occurrence.updated", "occurrence.cancelled": changeDose(event)
        case "adherence.summary_updated":
            if let summary = data["summary"] as? NSDictionary { keep(summary) }
            if case .day = subject, let new = data["stats"] as? NSDictionary { stats = new }
        case "reminder.created", "reminder.updated":
            guard let id = data["id"] as? String else { break }
            rules[id] = Self.without(["_sync", "nextOccurrences", "upcoming"], data as NSDictionary)
        case "reminder.deleted":
            guard let id = data["id"] as? String else { break }
            rules[id] = nil
            exceptions = exceptions.filter { $0.value["ruleId"] as? String != id }
        case "reminder.occurrence_updated":
            guard let id = data["occurrenceId"] as? String else { break }
            exceptions[id] = data["removed"] as? Bool == true ? nil : Self.without(["_sync"], data as NSDictionary)
        default: Issue.record("unknown event \(event.name)")
        }
    }

    private mutating func changeDose(_ event: LoggedEvent) {
        if let summary = event.data["daySummary"] as? NSDictionary { keep(Self.without(["month"], summary)) }
        guard case .day(let day) = subject, let id = event.data["occurrenceId"] as? String,
            var state = event.data["updates"] as? [String: Any]
        else { return }
        guard state["status"] as? String != "cancelled", state["localDate"] as? String == day else {
            doses[id] = nil
            return
        }
        state["id"] = id
        state["userId"] = event.data["userId"]
        doses[id] = state as NSDictionary
    }

    private mutating func keep(_ summary: NSDictionary) {
        guard let date = summary["date"] as? String, days[date] != nil else { return }
        days[date] = summary
    }

    private static func index(_ list: Any?, by name: String) throws -> [String: NSDictionary] {
        let list = try #require(list as? [NSDictionary])
        let pairs = try list.map { (try #require($0[name] as? String), $0) }
        return try Dictionary(pairs) { _, _ in throw CocoaError(.fileReadCorruptFile) }
    }

    private static func without(_ names: [String], _ object: NSDictionary) -> NSDictionary {
        guard var members = object as? [String: Any] else { return object }
        for name in names { members[name] = nil }
        return members as NSDictionary
    }
}
