import Care
import JSON

/// The kinds of entities that a device keeps.
enum EntityKind: String, CaseIterable, Sendable {
    case dose, day, stats, loaded, reminder, reminderDay, medication, stack, settings
    /// The revision that an action of this device has made of an entity: its `offset`.
    case own
}

/// A channel of the user's that the client keeps.
enum Topic: String, CaseIterable, Sendable {
    case adherence, reminders, medications

    /// The kinds that its events change.
    var kinds: [EntityKind] {
        switch self {
        case .adherence: [.dose, .day, .stats, .loaded]
        case .reminders: [.reminder, .reminderDay]
        case .medications: [.medication, .stack, .settings]
        }
    }
}

extension Topic {
    /// What actions on it touch: the words before the colon.
    var touched: Set<String> {
        switch self {
        case .adherence: ["dose"]
        case .reminders: ["reminder"]
        case .medications: ["medication", "stack", "schedule", "settings"]
        }
    }
}

/// What the hub said of one thing, with the number of the event or snapshot that it is from: an older one never takes the
/// place of a newer one. Without a value it is deleted, and known to be until the next snapshot.
struct Entity: Sendable {
    let kind: EntityKind
    let id: String
    let offset: Int64
    let value: JSONTree?
    /// Of a dose: `rev` of the last change of its state, and of its note, as far as the device has seen.
    var statusRev: Int64 = 0
    var noteRev: Int64 = 0
    /// Its note or its reason was changed elsewhere: events tell no texts.
    var isNoteOld = false
    /// Of a dose: as the rules have it.
    let dose: Dose?

    init(
        _ kind: EntityKind, _ id: String, offset: Int64, value: JSONTree?, statusRev: Int64 = 0, noteRev: Int64 = 0,
        isNoteOld: Bool = false
    ) {
        self.kind = kind
        self.id = id
        self.offset = offset
        self.value = value
        self.statusRev = statusRev
        self.noteRev = noteRev
        self.isNoteOld = isNoteOld
        dose = kind == .dose ? value.flatMap { Self.dose($0, statusRev: statusRev, noteRev: noteRev) } : nil
    }

    var key: EntityKey { EntityKey(kind: kind, id: id) }

    /// The dose that the hub has written; nil where it lacks what the rules need.
    private static func dose(_ value: JSONTree, statusRev: Int64, noteRev: Int64) -> Dose? {
        func instant(_ name: String) -> Timestamp? { value[name]?.string.flatMap(TimeText.instant) }
        guard let id = value["id"]?.string, let scheduledAt = instant("scheduledAt"),
            let day = value["localDate"]?.string.flatMap(TimeText.day),
            let status = value["status"]?.string.flatMap(DoseStatus.init(rawValue:))
        else { return nil }
        let state = DoseState(
            status, takenAt: instant("takenAt"),
            takenOffset: value["takenAtLocal"]?.string.flatMap { TimeText.time($0)?.utcOffset },
            reason: value["reason"]?.string)
        var dose = Dose(
            id: Identifier(id), user: Identifier(value["userId"]?.string ?? ""),
            scheduleID: value["scheduleId"]?.string,
            productID: value["productId"]?.string, state: state, note: value["note"]?.string, scheduledAt: scheduledAt,
            zone: value["timezone"]?.string ?? "UTC",
            utcOffset: value["timeLocal"]?.string.flatMap { TimeText.time($0)?.utcOffset } ?? 0, day: day,
            windowStart: instant("windowStart"), windowEnd: instant("windowEnd") ?? scheduledAt,
            createdAt: instant("createdAt") ?? scheduledAt, isAsNeeded: value["asNeeded"]?.flag ?? false)
        dose.rev = value["rev"]?.integer ?? 0
        dose.statusRev = statusRev
        dose.noteRev = noteRev
        dose.changed.actor = value["changedBy"]?["actor"]?.string.flatMap(DoseActor.init(rawValue:)) ?? .backend
        return dose
    }
}

/// The name of an entity.
struct EntityKey: Hashable, Sendable {
    let kind: EntityKind
    let id: String
}
