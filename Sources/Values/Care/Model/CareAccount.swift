import JSON
import Sync

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

/// A device of whom an action with a number is stored.
package struct DeviceRecord: Sendable {
    /// That of its last action.
    package let number: Int64
    /// When that was.
    let usedAt: Timestamp
}

/// A note that an action added to a dose.
package struct NoteID: Hashable, Sendable {
    package let dose: Identifier
    /// The action's key.
    package let key: Identifier
}

/// All that the server knows of one user. A user's actions never touch another's.
package struct CareAccount {
    /// Who it is.
    package let user: Identifier
    /// The user's zone.
    package var zone: String
    /// All doses, by id.
    package internal(set) var doses: [Identifier: Dose] = [:]
    /// All notes that actions added; nothing overwrites one.
    package internal(set) var notes: [NoteID: String] = [:]
    /// The days that have doses.
    package internal(set) var days: [LocalDate: DayRecord] = [:]
    /// The devices that are remembered: those that have acted last.
    package internal(set) var devices: [Identifier: DeviceRecord] = [:]
    /// The stream, from its first event on.
    package internal(set) var events: [CareEvent] = []
    /// Stored actions by key.
    var actions: [Identifier: StoredAction] = [:]
    /// What the events told of each dose, by revision; of two with one revision the later.
    var told: [Identifier: [Int64: JSONTree]] = [:]

    /// A user of whom nothing is known.
    init(user: Identifier, zone: String) {
        self.user = user
        self.zone = zone
    }

    /// Devices that are remembered of one user.
    static let devicesMax = 100

    /// Takes a device's number. Of too many devices the one that has not acted for the longest time is forgotten: it
    /// counts from 1 again, and its keys alone say what it has done.
    mutating func count(_ number: Int64, of device: Identifier, at now: Timestamp) {
        let isNew = devices[device] == nil
        devices[device] = DeviceRecord(number: number, usedAt: now)
        guard isNew, devices.count > Self.devicesMax else { return }
        let oldest = devices.filter { $0.key != device }.min { ($0.value.usedAt, $0.key) < ($1.value.usedAt, $1.key) }
        if let oldest { devices[oldest.key] = nil }
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
