import Bytes
import Clock
import Logging
import Metrics
import Postgres
import Reactor

/// The outbox on its loop: one connection, on which claims and settlements follow each other.
final class OutboxLoop {
    enum Message: Sendable {
        case look
        case settle([PushOutcome])
        case stopClaiming
        case stop(Duration)
    }

    /// The end comes in two steps: nothing more is claimed, and then what is left is settled.
    private enum Phase { case claiming, settling, stopping }

    private let loop: EventLoop
    private let configuration: OutboxConfiguration
    private let metrics: OutboxMetrics
    private let faults: FaultLog
    private let take: ([DuePush]) -> Void
    /// Tells this hub's claims from others'. Another life of the hub is another hub.
    private let hub: String
    private var slot: ConnectionSlot?
    private var due: Alarm?
    private var retry: Alarm?
    private var settleDue: Alarm?
    private var stateDue: Alarm?
    private var end: Alarm?
    private var isUp: Bool { slot?.isUp == true }
    private var (isClaiming, isSettling, isLookWanted) = (false, false, false)
    private var phase = Phase.claiming
    /// Outcomes to settle.
    private var outcomes = Fifo<PushOutcome>()
    /// Outcomes whose rows somebody else held: they hold up no others.
    private var locked: [PushOutcome] = []
    private var held = HeldPushes() {
        didSet { metrics.held.set(held.count) }
    }

    init(
        _ loop: EventLoop, _ inbox: Mailbox<Message>, _ configuration: OutboxConfiguration,
        _ parameters: ConnectionParameters, _ logger: Logger, _ metrics: OutboxMetrics,
        _ meter: PostgresConnectionMetrics,
        _ take: @escaping ([DuePush]) -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.metrics = metrics
        self.take = take
        faults = FaultLog(loop, logger, of: "pushes")
        var random = SystemRandomNumberGenerator()
        hub = String(random.next(), radix: 36)
        due = try Alarm(loop) { [weak self] in self?.claim() }
        retry = try Alarm(loop) { [weak self] in self?.settleAll() }
        settleDue = try Alarm(loop) { [weak self] in self?.settle() }
        stateDue = try Alarm(loop) { [weak self] in self?.askState() }
        end = try Alarm(loop) { [weak self] in self?.loop.handle.stop() }
        slot = try ConnectionSlot(
            "the connection of pushes", loop: loop, parameters: parameters,
            connectTimeout: configuration.connectTimeout, logger: logger, meter: meter,
            greeting: OutboxStatement.greeting,
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.opened() }, lost: { [weak self] in self?.lost() }))
        loop.attach(inbox) { [weak self] in self?.received($0) }
        slot?.connect()
    }

    private func received(_ message: Message) {
        switch message {
        case .look:
            isLookWanted = true
            claim()
        case .settle(let told):
            for outcome in told { outcomes.append(outcome) }
            settleSoon()
        case .stopClaiming:
            if phase == .claiming { phase = .settling }
        case .stop(let patience):
            phase = .stopping
            end?.set(after: patience)
            settle()
        }
    }

    private func endIfDone() {
        if phase == .stopping, !isSettling, outcomes.isEmpty, locked.isEmpty { loop.handle.stop() }
    }

    private func opened() {
        // The connection carries out one after the other: outcomes that are known go first.
        settleAll()
        claim()
        askState()
    }

    private func lost() {
        (isClaiming, isSettling) = (false, false)
        due?.unset()
        retry?.unset()
        settleDue?.unset()
        stateDue?.unset()
    }

    // MARK: Claims

    /// How many pushes of each platform may be claimed now.
    private var rooms: [PushPlatform: Int] {
        var rooms: [PushPlatform: Int] = [:]
        for platform in PushPlatform.allCases {
            let held = held[platform]
            let room = OutboxLimits.heldMax - held
            if held == 0 || room >= OutboxLimits.roomLeast { rooms[platform] = min(room, OutboxLimits.batchMax) }
        }
        return rooms
    }

    private func claim() {
        let rooms = self.rooms
        guard isUp, phase == .claiming, !isClaiming, !rooms.isEmpty else { return }
        isClaiming = true
        isLookWanted = false
        due?.unset()
        // Read before the statement is sent: the lease begins later.
        let now = Instant.read()
        slot?.connection?.query(
            OutboxStatement.claim,
            OutboxStatement.claiming(hub, rooms, full: held.full, showsLabels: configuration.showsLabels),
            timeout: OutboxLimits.statementTimeout * 2
        ) { [weak self] answer in
            self?.claimed(answer, rooms, at: now)
        }
    }

    private func claimed(_ answer: Result<Rows, PostgresError>, _ rooms: [PushPlatform: Int], at time: Instant) {
        isClaiming = false
        switch answer {
        case .success(let rows):
            // The last one has no id where the database has more to look at, which it did not get to.
            let isCutShort = rows.count > 0 && rows.string(rows.count - 1, 0) == nil
            let count = isCutShort ? rows.count - 1 : rows.count
            let pushes = (0..<count).compactMap { DuePush(rows, $0, claimedAt: time) }
            if pushes.count < count { faults.tell("sync.claim_pushes gave other rows than expected", .error) }
            metrics.ran("claim", rows.count > 0 ? "done" : "nothing")
            var counts: [PushPlatform: Int] = [:]
            for push in pushes { counts[push.lane, default: 0] += 1 }
            takeNews(pushes)
            let isMoreLikely = isCutShort || rooms.contains { counts[$0.key, default: 0] >= $0.value }
            // A settlement that made room while this claim was under way could not claim for that platform.
            let isRoomNew = self.rooms.contains { rooms[$0.key] == nil }
            if isLookWanted || isMoreLikely || isRoomNew { claim() }
            if !isClaiming { due?.set(after: configuration.interval) }
        case .failure(let error):
            metrics.ran("claim", "failed")
            failed(error, "sync.claim_pushes")
            if isUp { due?.set(after: OutboxLimits.retryPause) }
        }
    }

    /// Hands on what is to be sent. After an outage a push may be claimed again whose sending is not settled yet: it
    /// counts as sent by whatever claim it was, and is not sent a second time.
    private func takeNews(_ pushes: [DuePush]) {
        var news = pushes
        if !outcomes.isEmpty || !locked.isEmpty {
            var sent = Set(locked.lazy.filter { $0.result == .sent }.map(\.id))
            for index in 0..<outcomes.count where outcomes[index].result == .sent { sent.insert(outcomes[index].id) }
            news.removeAll { sent.contains($0.id) }
        }
        for push in news { held.add(push) }
        if !news.isEmpty { take(news) }
    }

    // MARK: Settlements

    /// Those that were left, too.
    private func settleAll() {
        for outcome in locked { outcomes.append(outcome) }
        locked = []
        settle()
    }

    /// A settlement of few costs nearly as much as one of many: they wait for more, but not where no more is to come.
    private func settleSoon() {
        let count = outcomes.count
        if phase == .stopping || count == 0 || count >= OutboxLimits.roomLeast || count >= held.count - locked.count {
            settle()
        } else {
            settleDue?.set(within: OutboxLimits.gathering)
        }
    }

    private func settle() {
        guard isUp, !isSettling, !outcomes.isEmpty else { return endIfDone() }
        isSettling = true
        // They leave the row when they are settled: a connection that is lost meanwhile leaves them all here.
        let batch = (0..<min(outcomes.count, OutboxLimits.batchMax)).map { outcomes[$0] }
        slot?.connection?.query(
            OutboxStatement.settle, OutboxStatement.settlement(hub, batch), timeout: OutboxLimits.statementTimeout * 2
        ) { [weak self] answer in
            self?.settled(batch, answer)
        }
    }

    private func settled(_ batch: [PushOutcome], _ answer: Result<Rows, PostgresError>) {
        isSettling = false
        switch answer {
        case .success(let rows):
            let left = Set((0..<rows.count).compactMap { rows.integer($0, 0) })
            metrics.ran("settle", left.isEmpty ? "done" : "locked")
            let before = rooms.count
            var isShareFree = false
            for outcome in batch {
                outcomes.popFirst()
                if left.contains(outcome.id) {
                    locked.append(outcome)
                } else {
                    isShareFree = held.remove(outcome) || isShareFree
                }
            }
            if !locked.isEmpty { retry?.set(within: OutboxLimits.retryPause) }
            settleSoon()
            // It may have stopped for want of room, or of a user's share.
            if rooms.count > before || isShareFree { claim() }
        case .failure(let error):
            metrics.ran("settle", "failed")
            failed(error, "sync.settle_pushes")
            if isUp { retry?.set(within: OutboxLimits.retryPause) }
        }
    }

    // MARK: How many wait

    private func askState() {
        guard isUp else { return }
        slot?.connection?.query(OutboxStatement.state, timeout: OutboxLimits.statementTimeout * 2) {
            [weak self] answer in
            guard let self else { return }
            switch answer {
            case .success(let rows):
                metrics.found(
                    waiting: rows.integer(0, 0) ?? 0, oldestSeconds: rows.string(0, 1).flatMap { Double($0) } ?? 0,
                    declined: rows.integer(0, 2) ?? 0)
            case .failure(let error):
                failed(error, "sync.push_state")
            }
            if isUp { stateDue?.set(after: OutboxLimits.stateInterval) }
        }
    }

    private func failed(_ error: PostgresError, _ function: String) {
        if !error.isLostRace { faults.tell("\(function) failed: \(error.description)") }
        slot?.failed(error)
    }
}
