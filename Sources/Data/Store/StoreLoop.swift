import Bytes
import Clock
import Logging
import Metrics
import Postgres
import Reactor
import Sync

/// What other threads ask of the store.
enum StoreMessage: Sendable {
    case submit(ActionRequest)
    case ask(SnapshotRequest)
    case stop
}

/// The store on its loop: joins queue, rates and writers.
///
/// Whatever happens in a tick only changes state; when the tick ends, actions are sent wherever there is room, and the
/// feed and the other hubs are told of what was committed.
final class StoreLoop: EventSource {
    /// How often it is looked for actions beyond their time.
    private static let sweepInterval = Duration.milliseconds(250)

    private let loop: EventLoop
    private let configuration: StoreConfiguration
    private let metrics: StoreMetrics
    private let committed: () -> Void
    private var queue: ActionQueue
    private var failing = FailingActions()
    private var rates: ActionRates
    private let faults: FaultLog
    private var writers = WriterPool([])
    private var outage = Outage()
    private var sweep: Alarm?
    private var announcer: Announcer?
    private var retention: Retention?
    private var snapshots: SnapshotDesk?
    private var commitsOfTick = 0
    private var isStopping = false
    private var stopLimit: Alarm?

    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ metrics: StoreMetrics, _ postgres: PostgresMetrics, committed: @escaping () -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.metrics = metrics
        self.committed = committed
        queue = ActionQueue(
            QueueBounds(
                actions: configuration.waitingMax, actionsPerUser: configuration.waitingPerUserMax,
                bytes: configuration.waitingBytesMax))
        rates = ActionRates(configuration)
        faults = FaultLog(loop, logger)
        super.init()
        try loop.add(self)
        sweep = try Alarm(loop) { [weak self] in self?.sweepDue() }
        stopLimit = try Alarm(loop) { [weak self] in self?.stopOverdue() }
        announcer = try Announcer(loop, configuration.announceInterval, metrics.announced) { [weak self] in
            self?.announce() ?? false
        }
        retention = try Retention(loop, configuration) { [weak self] in
            self?.retain($0, below: $1) ?? false
        }
        snapshots = try SnapshotDesk(loop, configuration, parameters, logger, postgres.meter(.query), faults)
        let handlers = Writer.Handlers(
            up: { [weak self] in self?.up() },
            answered: { [weak self] in self?.answered($0, $1, $2) },
            lost: { [weak self] in self?.lost($0) },
            announced: { [weak self] in self?.announced($0) },
            retained: { [weak self] in self?.retained($0) })
        let count = max(1, min(configuration.connections, StoreLimits.connectionsMax))
        writers = WriterPool(
            try (1...count).map { number throws(ReactorError) in
                try Writer(number, loop, parameters, configuration, logger, postgres.meter(.write), handlers)
            })
        writers.start()
    }

    func received(_ message: StoreMessage) {
        switch message {
        case .submit(let request): submitted(request)
        case .ask(let request): snapshots?.ask(request)
        case .stop: stop()
        }
        loop.markDirty(self)
    }

    override func tickEnded() {
        pump()
        if commitsOfTick > 0 {
            committed()
            announcer?.want(commitsOfTick)
            commitsOfTick = 0
        }
        announcer?.tell(now: loop.now, atOnce: isStopping)
        if queue.userCount > 0 { sweep?.set(within: Self.sweepInterval) }
        if isStopping { endWhereDone() }
    }

    // MARK: In

    private func submitted(_ request: ActionRequest) {
        let now = loop.now
        let key = request.envelope.key
        if let refusal = refusal(request, now) { return request.answer(refusal) }
        let deadline = now.advanced(by: configuration.actionTimeout)
        guard let action = Action(request, line: queue.line(request.user), deadline: deadline) else {
            return request.answer(.invalid(key: key, path: nil, message: "a text holds a NUL"))
        }
        switch queue.append(action, now: now) {
        case nil: break
        case .full: return action.finish(.busy(key, after: .seconds(1), "too many actions wait"))
        case .held(let end, let reason): return action.finish(.held(key, end.duration(since: now), reason))
        }
        rates.take(action, now: now)
    }

    private func refusal(_ request: ActionRequest, _ now: Instant) -> ActionAnswer? {
        let key = request.envelope.key
        guard !isStopping else { return .stopping(key: key) }
        guard !outage.isOn else { return unavailable(key) }
        return rates.wait(request, now: now).map { wait in
            .retry(
                key: key, .rateLimited, after: wait, message: "this user or device sends faster than it may")
        }
    }

    // MARK: Out

    private func pump() {
        let quarantined = writers.quarantined(
            hasSuspect: queue.hasSuspect, isUnderWay: queue.isSuspectUnderWay, below: configuration.depth)
        if let quarantined, let action = queue.nextSuspect() { send(action, quarantined) }
        while let writer = writers.freest(below: configuration.depth), let action = queue.next() {
            send(action, writer)
        }
    }

    private func send(_ action: Action, _ writer: Writer) {
        if isCut(.beforeSend) {
            queue.again(action)
            return writer.drop(.cut)
        }
        writer.send(action)
        if isCut(.afterSend) { writer.drop(.cut) }
    }

    private func announce() -> Bool {
        // One statement more than the depth: the connection keeps it until there is room.
        guard let writer = writers.freest(below: .max) else { return false }
        writer.announce()
        return true
    }

    private func announced(_ error: PostgresError?) {
        // The poll of other hubs makes up for one that the server refuses.
        announcer?.done(error?.kind != .lost)
        if let error, error.kind != .lost { faults.tell(error) }
        loop.markDirty(self)
    }

    private func retain(_ parameters: CStringList, below load: Int) -> Bool {
        guard let writer = writers.freest(below: load) else { return false }
        writer.retain(parameters)
        return true
    }

    private func retained(_ answer: Result<Rows, PostgresError>) {
        switch answer {
        case .success(let rows):
            let count = rows.count == 1 ? rows.string(0, 0).flatMap { Int($0) } : nil
            metrics.deletedRows.add(max(0, count ?? 0))
            retention?.done(count)
        case .failure(let error):
            retention?.done(nil)
            if error.kind != .lost { faults.tell(error) }
        }
        loop.markDirty(self)
    }

    // MARK: Calls of the writers

    private func up() {
        outage.ends()
        loop.markDirty(self)
    }

    private func lost(_ actions: [Action]) {
        if !writers.isUp { outage.begins(at: loop.now) }
        for action in actions.reversed() {
            action.losses += 1
            if action.isAnswered {
                queue.done(action)
            } else if isStopping {
                queue.done(action)
                action.finish(.stopping(key: action.key))
            } else if action.losses > StoreLimits.lossesMax {
                queue.done(action)
                action.finish(unavailable(action.key))
            } else {
                queue.again(action)
            }
        }
        loop.markDirty(self)
    }

    private func answered(_ writer: Writer, _ action: Action, _ answer: Result<Rows, PostgresError>) {
        loop.markDirty(self)
        let verdict = Verdict(answer)
        if case .failure(let error) = answer { faults.tell(error, verdict) }
        switch verdict {
        case .decided(let answer):
            if isCut(.afterCommit) { return writer.drop(.cut, with: action) }
            decided(action, answer)
            if isCut(.afterReply) { writer.drop(.cut) }
        case .again, .outdated:
            action.races += 1
            if action.races < StoreLimits.racesMax, !isStopping { return queue.again(action) }
            if case .outdated = verdict { return failed(action) }
            if isBlamed(action, for: answer) { return refuse(action) }
            done(action, .busy(action.key, after: .milliseconds(100), "others write the same rows"))
        case .locked:
            hold(action, .locked)
        case .constraint where action.violations == 0 && !action.isRefused && !isStopping:
            action.violations += 1
            queue.again(action)
        case .constraint, .refused:
            refuse(action)
        case .broken:
            failed(action)
        case .readOnly:
            action.races += 1
            if isStopping || action.races > StoreLimits.lossesMax {
                if isBlamed(action, for: answer) { refuse(action) } else { done(action, unavailable(action.key)) }
            } else {
                queue.again(action)
            }
            writer.leave(.readOnly)
        case .unavailable:
            if isBlamed(action, for: answer) { return refuse(action) }
            done(action, unavailable(action.key))
        case .failed:
            if isBlamed(action, for: answer) { return refuse(action) }
            hold(action, .failed)
        }
    }

    /// Whether an error that speaks of the server is this action's own: a trigger raises it, or a foreign server that it asks.
    /// The server is well then, for it applies others all the while. Asked once for each submission, when no more is tried. A
    /// row that another writer holds is never blamed on an action.
    private func isBlamed(_ action: Action, for answer: Result<Rows, PostgresError>) -> Bool {
        guard case .failure(let error) = answer, error.kind == .statement, error.isInFunction, !action.isRefused,
            !isStopping, failing.failed(action.name, mayBeServer: true, now: loop.now)
        else { return false }
        faults.tell("an action fails while others are applied, and is rejected: see the failures before")
        return true
    }

    /// Something of the application's fails at this action. Should it do so again and again, though the server is well,
    /// no device can be held up by it for ever: a refusal is stored, which is a statement of its own and does not reach it.
    private func failed(_ action: Action) {
        let isHopeless = failing.failed(action.name, now: loop.now)
        guard isHopeless, !action.isRefused, !isStopping else { return hold(action, .failed) }
        faults.tell(
            "an action has failed \(StoreLimits.failuresMax) times or more, and is rejected: see the failures before")
        refuse(action)
    }

    private func refuse(_ action: Action) {
        guard !isStopping else { return done(action, .stopping(key: action.key)) }
        guard !action.isRefused else { return hold(action, .failed) }
        action.beRefused()
        queue.again(action)
    }

    private func decided(_ action: Action, _ answer: ActionAnswer) {
        if answer.status != .retry { failing.decided(action.name) }
        if answer.status == .applied || answer.status == .partial {
            commitsOfTick += 1
            failing.applied(now: loop.now)
        }
        if answer.retry == .outOfOrder {
            // What comes before its turn comes again, and nothing was asked of the database.
            rates.giveBack(action, now: loop.now)
        }
        queue.done(action, isDecided: true)
        action.finish(answer)
    }

    private func done(_ action: Action, _ answer: ActionAnswer) {
        queue.done(action)
        action.finish(answer)
    }

    private func hold(_ action: Action, _ reason: HoldReason) {
        let (pause, rest) = queue.hold(action, now: loop.now, pause: configuration.lockTimeout, reason)
        for action in [action] + rest { action.finish(.held(action.key, pause, reason)) }
    }

    // MARK: Time

    private func sweepDue() {
        for action in queue.expire(now: loop.now) {
            // What was never sent to a database that is there has waited for others.
            let isBusy = !outage.isOn && action.line.current !== action && action.losses == 0
            action.finish(
                isBusy
                    ? .busy(action.key, after: .seconds(1), "too many actions wait") : unavailable(action.key))
        }
        if outage.isLong(at: loop.now) {
            for action in queue.removeWaiting(keepingLost: true) { action.finish(unavailable(action.key)) }
        }
        loop.markDirty(self)
    }

    private func stop() {
        guard !isStopping else { return }
        isStopping = true
        retention?.stop()
        snapshots?.stop()
        for action in queue.removeWaiting() { action.finish(.stopping(key: action.key)) }
        stopLimit?.set(after: configuration.statementTimeout)
    }

    private func endWhereDone() {
        guard queue.isIdle, announcer?.isQuiet != false || outage.isOn else { return }
        loop.handle.stop()
    }

    private func stopOverdue() {
        for action in queue.underWay() { action.finish(.stopping(key: action.key)) }
        loop.handle.stop()
    }

    private func unavailable(_ key: String) -> ActionAnswer {
        .unavailable(key, after: outage.pause(atLeast: .milliseconds(500), at: loop.now))
    }

    private func isCut(_ place: Failpoint) -> Bool {
        #if DEBUG
        configuration.failpoints?.reached(place) ?? false
        #else
        false
        #endif
    }
}

extension PostgresError {
    fileprivate static let cut = PostgresError(.lost, "a failpoint was reached")
    fileprivate static let readOnly = PostgresError(
        .statement, "the server is read-only: a standby, or no longer the primary", sqlstate: "25006")
}
