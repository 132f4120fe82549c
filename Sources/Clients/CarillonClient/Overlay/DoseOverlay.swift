import Care
import JSON

/// The user's doses after time and all actions that the hub has not confirmed, by the rules of the hub.
///
/// It goes on from its last fold where only actions were added; it begins anew when the hub said something, when an action
/// has settled, or when a dose became due.
struct DoseOverlay: Sendable {
    /// The only user of the model.
    static let user = Identifier("")

    private(set) var model: CareModel
    /// The doses as the hub has them, after time.
    private var before: [Identifier: Dose] = [:]
    /// Those that an action has changed.
    private(set) var touched: Set<Identifier> = []
    private var keys: [String] = []
    private(set) var turn: Int?
    /// Doses as they were shown last.
    var shelf = DoseShelf()
    private var zone = ""
    private var at = Timestamp(microseconds: .min)
    /// Until when time changes nothing.
    private(set) var edge = Timestamp(microseconds: .min)

    init() {
        model = CareModel(epoch: "", utcOffset: Zones.offset)
    }

    var doses: [Identifier: Dose] { model.accounts[Self.user]?.doses ?? [:] }

    /// Folds what is new.
    ///
    /// - Parameter isReached: an action comes that names another one.
    mutating func fold(_ mirror: Mirror, zone: String, at now: Timestamp, isReached: Bool = false) {
        let rows = mirror.counting.filter { Self.types.contains($0.type) }
        let reaches = isReached || rows.contains { $0.type == "undo" || $0.type == "resolve" }
        let isNext =
            !reaches && turn == mirror.turns[.dose] && self.zone == zone && at <= now && now < edge
            && rows.count >= keys.count && zip(keys, rows).allSatisfy { $0 == $1.key }
        if !isNext { begin(mirror, zone: zone, at: now) }
        if reaches { remember(mirror, except: Set(rows.map(\.key))) }
        for row in rows.dropFirst(isNext ? keys.count : 0) { _ = apply(row, mirror, at: now) }
        settle(at: now)
        keys = rows.map(\.key)
        at = now
    }

    private mutating func begin(_ mirror: Mirror, zone: String, at now: Timestamp) {
        let doses = mirror.all(.dose).values.compactMap(\.dose).map { $0.afterTime(now) }
        model.adopt(doses, user: Self.user, zone: zone)
        before = Dictionary(doses.map { ($0.id, $0) }) { _, last in last }
        touched = []
        turn = mirror.turns[.dose]
        self.zone = zone
        keys = []
    }

    /// What an action has put back may have been missed meanwhile.
    private mutating func settle(at now: Timestamp) {
        var edge = endOfDay(now)
        for (id, dose) in doses {
            if let old = before[id], old.rev == dose.rev {
                // Time alone has changed it, if anything.
            } else {
                touched.insert(id)
                let aged = dose.afterTime(now)
                if aged.state.status != dose.state.status { model.put(aged, user: Self.user) }
            }
            guard dose.state.status == .scheduled else { continue }
            for time in [dose.windowEnd, dose.windowEnd.adding(seconds: DoseRules.graceSeconds)]
            where time > now && time < edge { edge = time }
        }
        self.edge = edge
    }

    private func endOfDay(_ now: Timestamp) -> Timestamp {
        let offset = Zones.offset(zone, now) ?? 0
        let tomorrow = now.date(utcOffset: offset).adding(1)
        return Timestamp(microseconds: Int64(tomorrow.days) * 86_400_000_000).adding(seconds: -offset)
    }

    // MARK: Actions

    /// The types of actions that change doses.
    static let types = Set(DoseAction.types + ["logDose"])

    /// Performs a row; the answer is what the hub will probably say.
    @discardableResult
    mutating func apply(_ row: QueuedRow, _ mirror: Mirror, at now: Timestamp) -> CareAnswer {
        if row.type == "logDose" { return log(row, at: now) }
        let envelope = CareEnvelope(
            key: Identifier(row.key), type: row.type, payload: row.payload, base: mirror.base(of: row),
            clientTime: .string(row.clientTime), zone: row.zone)
        return model.apply(envelope, user: Self.user, at: now)
    }

    /// An intake that no schedule asked for.
    private mutating func log(_ row: QueuedRow, at now: Timestamp) -> CareAnswer {
        let key = Identifier(row.key)
        guard let id = row.payload["id"]?.string.map({ Identifier($0) }), doses[id] == nil else {
            return CareAnswer(key, .noop)
        }
        var sent = TimeText.time(row.payload["takenAt"]?.string ?? row.clientTime)
        if let milliseconds = row.payload["takenAt"]?.integer {
            sent = (Timestamp(microseconds: milliseconds.multipliedReportingOverflow(by: 1000).partialValue), nil)
        }
        let at = min(sent?.instant ?? now, now)
        let offset = Zones.offset(zone, at) ?? 0
        var dose = Dose(
            id: id, user: Self.user, productID: row.payload["productId"]?.string,
            state: DoseState(.taken, takenAt: at, takenOffset: sent?.utcOffset), note: row.payload["note"]?.string,
            scheduledAt: at, zone: zone, utcOffset: offset, day: at.date(utcOffset: offset), windowEnd: at,
            createdAt: at)
        dose.rev = 0
        model.put(dose, user: Self.user)
        return CareAnswer(key, .applied)
    }

    /// What answered actions left behind, for an undo or a decision of a person.
    private mutating func remember(_ mirror: Mirror, except own: Set<String>) {
        for row in mirror.actions where !own.contains(row.key) && Self.types.contains(row.type) {
            let at = row.more.answeredAt.map { Timestamp(microseconds: $0) } ?? TimeText.instant(row.clientTime) ?? at
            var memory =
                row.more.memory.flatMap(ActionMemory.init)
                ?? ActionMemory(type: row.type, isSingle: row.type != "bulkMarkAll", createdAt: at)
            memory.createdAt = at
            if row.state == .parked, let answer = row.more.answer {
                let items = answer["items"]?.elements.compactMap { $0["conflict"] } ?? []
                memory.tell(conflicts: answer["conflict"].map { [$0] } ?? items)
            }
            model.remember(memory, key: Identifier(row.key), user: Self.user)
        }
    }
}

extension Dose {
    /// What time makes of a dose: missed, once its window and the grace after it have ended. The hub's job will do it.
    func afterTime(_ now: Timestamp) -> Dose {
        guard state.status == .scheduled, windowEnd.adding(seconds: DoseRules.graceSeconds) <= now else { return self }
        var dose = self
        dose.state = DoseState(.missed)
        return dose
    }
}

extension Mirror {
    /// The rows that count: unanswered ones, and answered ones whose events are not here yet.
    var counting: [QueuedRow] {
        actions.filter { row in
            if row.state.isWaiting { return true }
            guard let until = row.more.until, row.state == .done || row.state == .failed else { return false }
            return !until.allSatisfy { channel, told in
                // A channel that this device does not keep, or that has begun anew, confirms nothing.
                guard let position = positions[channel], position.epoch == told.epoch else { return true }
                return position.offset >= told.offset
            }
        }
    }

    /// The entities that a conflict holds.
    var conflicted: Set<String> { Set(actions.lazy.filter { $0.state == .parked }.flatMap(\.entities)) }

    /// The user's zone, as the hub has it.
    var userZone: String? { value(.settings, "settings")?["timezone"]?.string }
}
