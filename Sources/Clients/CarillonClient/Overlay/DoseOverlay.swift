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
    /// The last row that was looked at.
    private var last: Int64 = 0
    private var rowTurn = -1
    /// A row that was performed before it was stored: the next new one is it, or all begins anew.
    private var trial: String?
    /// What answered actions left behind is known.
    private var isRemembering = false
    private(set) var turn: Int?
    /// Doses as they were shown last.
    var cache = DoseCache()
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
        var rows = mirror.queue.rows(after: last)
        var isNext =
            turn == mirror.turns[.dose] && rowTurn == mirror.rowTurn && self.zone == zone && at <= now && now < edge
        if let trial {
            isNext = isNext && rows.count == 1 && rows.first?.key == trial && rows.first?.state == .queued
            self.trial = nil
            if isNext, let row = rows.popFirst() { last = row.id }
        }
        let reaches = isReached || rows.contains { Self.reaching.contains($0.type) }
        if isNext, !reaches || isRemembering {
            for row in rows where Self.types.contains(row.type) && row.state.isWaiting { apply(row, mirror, at: now) }
        } else {
            begin(mirror, zone: zone, at: now)
            let counting = Array(mirror.counting(.doses))
            if isReached || counting.contains(where: { Self.reaching.contains($0.type) }) {
                remember(mirror, except: Set(counting.map(\.key)))
            }
            for row in counting { apply(row, mirror, at: now) }
        }
        if let newest = mirror.actions.last?.id { last = max(last, newest) }
        settle(at: now)
        at = now
    }

    /// Performs a row that is about to be stored, after a fold; the answer is what the hub will probably say.
    mutating func attempt(_ row: QueuedAction, _ mirror: Mirror, at now: Timestamp) -> CareAnswer {
        trial = row.key
        return apply(row, mirror, at: now)
    }

    private mutating func begin(_ mirror: Mirror, zone: String, at now: Timestamp) {
        let doses = mirror.all(.dose).values.compactMap(\.dose).map { $0.afterTime(now) }
        model.adopt(doses, user: Self.user, zone: zone)
        before = Dictionary(doses.map { ($0.id, $0) }) { _, last in last }
        touched = []
        turn = mirror.turns[.dose]
        rowTurn = mirror.rowTurn
        self.zone = zone
        last = 0
        isRemembering = false
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
            let over = dose.windowEnd.adding(seconds: DoseRules.graceSeconds)
            let isOpen = dose.state.status == .scheduled
            for time in isOpen ? [dose.scheduledAt, dose.windowEnd, over] : [dose.windowEnd]
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
    /// What is undone or decided depends on all that was done.
    static let reaching: Set<String> = ["undo", "resolve"]

    @discardableResult
    private mutating func apply(_ row: QueuedAction, _ mirror: Mirror, at now: Timestamp) -> CareAnswer {
        if row.type == "logDose" { return log(row, at: now) }
        let envelope = CareEnvelope(
            key: Identifier(row.key), type: row.type, payload: row.payload, base: base(of: row, mirror),
            clientTime: .string(row.clientTime), zone: row.zone)
        return model.apply(envelope, user: Self.user, at: now)
    }

    /// As the queue will name it when it is sent: own actions before it never conflict with it.
    private func base(of row: QueuedAction, _ mirror: Mirror) -> JSONTree? {
        mirror.entities.base(of: row) { entity in
            let id = Identifier(String(entity.dropFirst(5)))
            guard entity.hasPrefix("dose:"), let dose = doses[id], dose.rev != before[id]?.rev else { return nil }
            return dose.rev
        }
    }

    /// An intake that no schedule asked for.
    private mutating func log(_ row: QueuedAction, at now: Timestamp) -> CareAnswer {
        let key = Identifier(row.key)
        guard let id = row.payload["id"]?.string.map({ Identifier($0) }), doses[id] == nil else {
            return CareAnswer(key, .noop)
        }
        let sent = PayloadReader.takenAt(row.payload, clientTime: .string(row.clientTime), now: now)
        let at = sent.instant
        let offset = Zones.offset(zone, at) ?? 0
        var dose = Dose(
            id: id, user: Self.user, productID: row.payload["productId"]?.string,
            state: DoseState(.taken, takenAt: at, takenOffset: sent.utcOffset), note: row.payload["note"]?.string,
            scheduledAt: at, zone: zone, utcOffset: offset, day: at.date(utcOffset: offset), windowEnd: at,
            createdAt: at, isAsNeeded: true)
        dose.rev = 0
        model.put(dose, user: Self.user)
        return CareAnswer(key, .applied)
    }

    /// What answered actions left behind, for an undo or a decision of a person.
    private mutating func remember(_ mirror: Mirror, except own: Set<String>) {
        isRemembering = true
        for row in mirror.actions where !own.contains(row.key) && Self.types.contains(row.type) {
            let at = row.more.answeredAt.map { Timestamp(microseconds: $0) } ?? TimeText.instant(row.clientTime) ?? at
            var memory =
                row.more.memory.flatMap(ActionMemory.init)
                ?? ActionMemory(type: row.type, isSingle: row.type != "bulkMarkAll", createdAt: at)
            memory.createdAt = at
            if let answer = row.more.answer {
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
    /// The rows of a family that count: unanswered ones, and answered ones whose events are not here yet.
    func counting(_ family: RowFamily) -> some Sequence<QueuedAction> {
        rows(index.open(family)).filter { row in
            row.state.isWaiting || row.more.until.map { !isConfirmed($0) } ?? false
        }
    }

    /// Whether the events of an answered action are here.
    func isConfirmed(_ until: [String: StoredPosition]) -> Bool {
        until.allSatisfy { channel, told in
            // A channel that this device does not keep, or that has begun anew, confirms nothing.
            guard let position = positions[channel], position.epoch == told.epoch else { return true }
            return position.offset >= told.offset
        }
    }

    /// The entities that a conflict holds.
    var conflicted: Set<String> {
        Set(rows(index.seen).filter { $0.state == .parked }.flatMap(\.held))
    }

    /// The user's zone, as the hub has it.
    var userZone: String? { value(.settings, "settings")?["timezone"]?.string }
}
