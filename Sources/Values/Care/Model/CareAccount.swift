import JSON
import Sync

/// One event of a user's stream.
package struct CareEvent: Sendable {
    /// Its number.
    package let offset: Int64
    /// The event's name.
    package let name: String
    /// The data, `_sync` included.
    package let data: JSONTree
}

/// A day as last counted.
package struct DayRecord: Sendable {
    /// The day's doses, by status.
    package let counts: DayCounts
    /// The streak up to the day.
    package var streak: StreakRun
}

/// A device with a stored numbered action.
package struct DeviceRecord: Sendable {
    /// The number of its last action.
    package let number: Int64
    /// When that action was stored.
    let usedAt: Timestamp
}

/// A note that an action added to a dose.
package struct NoteID: Hashable, Sendable {
    /// The dose.
    package let dose: Identifier
    /// The action's key.
    package let key: Identifier
}

/// Everything that the server knows about one user. A user's actions never change another's account.
package struct CareAccount {
    /// The user.
    package let user: Identifier
    /// The user's time zone.
    package var zone: String
    /// All doses, by id.
    package internal(set) var doses: [Identifier: Dose] = [:]
    /// All notes that actions added. None is ever overwritten.
    package internal(set) var notes: [NoteID: String] = [:]
    /// The days that have doses.
    package internal(set) var days: [LocalDate: DayRecord] = [:]
    /// The remembered devices: the most recently active.
    package internal(set) var devices: [Identifier: DeviceRecord] = [:]
    /// The whole stream.
    package internal(set) var events: [CareEvent] = []
    var actions: [Identifier: StoredAction] = [:]
    /// A device's: it tells no events, counts no days, and answers without the texts of doses.
    var isDevices = false
    /// The `updates` that events sent for each dose, by revision. For one revision, the later ones count.
    var told: [Identifier: [Int64: JSONTree]] = [:]

    init(user: Identifier, zone: String) {
        self.user = user
        self.zone = zone
    }

    static let devicesMax = 100

    /// The account, of which nothing stays here.
    mutating func lent() -> CareAccount {
        defer { self = CareAccount(user: user, zone: zone) }
        return self
    }

    /// Stores a device's number. When there are too many devices, the one inactive longest is evicted: its numbers start at
    /// 1 again, and only the keys then detect its repeats.
    mutating func count(_ number: Int64, of device: Identifier, at now: Timestamp) {
        let isNew = devices[device] == nil
        devices[device] = DeviceRecord(number: number, usedAt: now)
        guard isNew, devices.count > Self.devicesMax else { return }
        let oldest = devices.filter { $0.key != device }.min { ($0.value.usedAt, $0.key) < ($1.value.usedAt, $1.key) }
        if let oldest { devices[oldest.key] = nil }
    }

    /// The number of the last event.
    package var top: Int64 { events.last?.offset ?? 0 }

    /// The channel of the user's events; empty when the id allows none.
    var channel: String {
        StreamName(form: .user, stream: StreamID(user: user.text, topic: "adherence")).format() ?? ""
    }

    func doses(of day: LocalDate) -> [Dose] { doses.values.filter { $0.day == day } }
}
