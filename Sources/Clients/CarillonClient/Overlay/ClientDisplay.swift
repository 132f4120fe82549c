import Care
import Foundation
import JSON

/// What screens show: what the hub said, with time and the queue folded over it. Apps watch its signals.
struct ClientDisplay {
    private let signals: ClientSignals
    private let options: CarillonOptions
    /// The channel of reminders.
    private let channel: String
    private var overlay = DoseOverlay()
    private var lists = ListCache()
    private var months: [String: CarillonValues<[CarillonDay]>] = [:]

    init(_ signals: ClientSignals, _ options: CarillonOptions, channel: String) {
        self.signals = signals
        self.options = options
        self.channel = channel
    }

    /// The user's zone.
    func zone(_ mirror: Mirror) -> String { mirror.userZone ?? options.timeZone() }

    /// The day of now, where the user is.
    func today(_ mirror: Mirror, at now: Timestamp) -> LocalDate {
        now.date(utcOffset: Zones.offset(zone(mirror), now) ?? 0)
    }

    /// How long time changes nothing, in nanoseconds.
    func untilEdge(at now: Timestamp) -> UInt64 {
        UInt64(min(max(edge - now.microseconds, 1000), 3_600_000_000)) * 1000
    }

    /// Whether time has changed what is shown. Where a device has slept, no timer says so.
    func isOld(at now: Timestamp) -> Bool { edge <= now.microseconds }

    private var edge: Int64 {
        let reminders = Int64(clamping: lists.edge).multipliedReportingOverflow(by: 1_000_000)
        return min(overlay.edge.microseconds, reminders.overflow ? .max : reminders.partialValue)
    }

    /// The days of a month; nil: nobody has asked for it yet.
    func month(_ name: String) -> CarillonValues<[CarillonDay]>? { months[name] }

    mutating func addMonth(_ name: String) -> CarillonValues<[CarillonDay]> {
        let made = CarillonValues<[CarillonDay]>()
        months[name] = made
        return made
    }

    /// The row of what a person does, and what the hub will probably answer.
    mutating func row(
        _ type: String, _ payload: JSONTree, base: JSONTree?, _ mirror: Mirror
    ) throws -> (row: QueuedAction, prediction: Prediction?) {
        let builder = RowBuilder(mirror: mirror, zone: zone(mirror), now: Timestamp(options.now()))
        return try builder.row(type, payload, base: base, overlay: &overlay) { UUID().uuidString.lowercased() }
    }

    /// Shows a mirror as it is at a time.
    mutating func show(_ mirror: Mirror, at now: Timestamp) {
        signals.set(state(mirror, at: now))
        for (name, value) in months { value.set(overlay.month(mirror, name, at: now)) }
    }

    private mutating func state(_ mirror: Mirror, at now: Timestamp) -> ClientSignals.State {
        let zone = zone(mirror)
        overlay.fold(mirror, zone: zone, at: now)
        let date = TimeText.text(today(mirror, at: now))
        let seen = Array(mirror.rows(mirror.index.seen))
        let parked = seen.filter { $0.state == .parked && $0.more.behind == nil && $0.more.decidedBy == nil }
        let medications = lists.medications(mirror)
        // With the answer that waits in the queue: a person is asked once.
        var change: CarillonZoneChange?
        let own = options.timeZone()
        if let home = medications?.timeZone, home != own, mirror.meta[MirrorKey.keptZone] != own {
            change = CarillonZoneChange(from: home, to: own)
        }
        return ClientSignals.State(
            today: overlay.day(mirror, date, user: options.user, at: now),
            reminders: lists.reminders(mirror, zone: zone, channel: channel, now: now.second),
            medications: medications, conflicts: parked.map { CarillonQueued($0) },
            failures: seen.filter { $0.state == .failed }.map { CarillonQueued($0) },
            queueLength: mirror.index.waiting.count,
            lastSyncAt: mirror.meta[MirrorKey.lastSync].flatMap(TimeText.instant)?.date, zoneChanged: change)
    }

    func finish() {
        for month in months.values { month.finish() }
        signals.finish()
    }
}

/// What apps can watch.
struct ClientSignals: Sendable {
    let today = CarillonValues<CarillonToday>()
    let reminders = CarillonValues<CarillonReminders>()
    let medications = CarillonValues<CarillonMedications>()
    let conflicts = CarillonValues<[CarillonQueued]>([])
    let failures = CarillonValues<[CarillonQueued]>([])
    let queueLength = CarillonValues(0)
    let lastSyncAt = CarillonValues<Date>()
    let connection = CarillonValues(CarillonConnection.offline)
    let problem = CarillonOptionalValues<CarillonError>()
    let zoneChanged = CarillonOptionalValues<CarillonZoneChange>()

    /// All that is computed of the mirror.
    struct State {
        let today: CarillonToday?
        let reminders: CarillonReminders?
        let medications: CarillonMedications?
        let conflicts: [CarillonQueued]
        let failures: [CarillonQueued]
        let queueLength: Int
        let lastSyncAt: Date?
        let zoneChanged: CarillonZoneChange?
    }

    func set(_ state: State) {
        today.set(state.today)
        reminders.set(state.reminders)
        medications.set(state.medications)
        conflicts.set(state.conflicts)
        failures.set(state.failures)
        queueLength.set(state.queueLength)
        lastSyncAt.set(state.lastSyncAt)
        zoneChanged.set(state.zoneChanged)
    }

    func finish() {
        today.finish()
        reminders.finish()
        medications.finish()
        conflicts.finish()
        failures.finish()
        queueLength.finish()
        lastSyncAt.finish()
        connection.finish()
        problem.finish()
        zoneChanged.finish()
    }
}
