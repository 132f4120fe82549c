import Care
import Foundation
import JSON

// What screens show, computed anew whenever the mirror or time has changed.

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
    let problem = CarillonValues<CarillonError>()
    let zoneChanged = CarillonValues<CarillonZoneChange>()

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

/// How often values are computed: while much changes, that takes a tenth of the time at most.
struct ComputeThrottle {
    /// Before then, what the hub tells is not computed.
    var notBefore = DispatchTime(uptimeNanoseconds: 0)
    var waiting: Task<Void, Never>?

    private static let longest: UInt64 = 500_000_000

    mutating func computed(since begin: DispatchTime) {
        let end = DispatchTime.now()
        let pause = min(9 * (end.uptimeNanoseconds - begin.uptimeNanoseconds), Self.longest)
        notBefore = DispatchTime(uptimeNanoseconds: end.uptimeNanoseconds + pause)
    }
}

extension CarillonClient {
    /// What the person does is seen at once.
    func compute() {
        pace.waiting?.cancel()
        pace.waiting = nil
        guard !isClosed else { return }
        let begin = DispatchTime.now()
        let now = Timestamp(options.now())
        signals.set(Self.computed(store.mirror, &overlay, &lists, options, channel: machine.channel(.reminders)))
        for (name, value) in months { value.set(overlay.month(store.mirror, name, at: now)) }
        pace.computed(since: begin)
        waitForEdge(now)
        let offset = Zones.offset(zone, now) ?? 0
        if store.fence != nil {
            perform { machine.complete(store.mirror, today: now.date(utcOffset: offset), &$0) }
        }
    }

    /// What the hub tells may wait for a moment.
    func computeSoon() {
        guard pace.waiting == nil, !isClosed else { return }
        let now = DispatchTime.now()
        guard now < pace.notBefore else {
            compute()
            return
        }
        let wait = pace.notBefore.uptimeNanoseconds - now.uptimeNanoseconds
        pace.waiting = Task { [weak self] in
            guard (try? await Task.sleep(nanoseconds: wait)) != nil else { return }
            await self?.compute()
        }
    }

    /// Computes again when a dose becomes due or missed, or the day ends.
    private func waitForEdge(_ now: Timestamp) {
        edge?.cancel()
        let wait = min(max(overlay.edge.microseconds - now.microseconds, 1000), 3_600_000_000)
        edge = Task { [weak self] in
            guard (try? await Task.sleep(nanoseconds: UInt64(wait) * 1000)) != nil else { return }
            await self?.compute()
        }
    }

    static func computed(
        _ mirror: Mirror, _ overlay: inout DoseOverlay, _ lists: inout ListCache, _ options: CarillonOptions,
        channel: String
    ) -> ClientSignals.State {
        let now = Timestamp(options.now())
        let zone = zone(mirror, options)
        overlay.fold(mirror, zone: zone, at: now)
        let date = TimeText.text(now.date(utcOffset: Zones.offset(zone, now) ?? 0))
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
}
