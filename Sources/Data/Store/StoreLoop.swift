import Bytes
import Clock
import Glibc
import Logging
import Metrics
import Postgres
import Reactor
import Sync

/// A message of another thread to the store.
enum StoreMessage: Sendable {
    case submit(ActionRequest)
    case ask(SnapshotRequest)
    case append(AppendRequest)
    case export(ExportRequest)
    case pullExport(Int, @Sendable (ExportPiece) -> Void)
    case endExport(Int)
    case stop
}

/// The store on its loop: joins the rate limits, the pools and the handling of their answers.
///
/// Inputs only change state. The end of the tick sends actions, and tells the feed and the other hubs of commits.
final class StoreLoop: EventSource {
    /// The kinds of requests on the writing connections.
    private enum Kind: Int { case announcement, action }

    private static let announcement = PreparedStatement("SELECT sync.announce()")
    /// The user of announcements.
    private static let hub = TextKey("")

    private let loop: EventLoop
    private let configuration: StoreConfiguration
    private let metrics: StoreMetrics
    private var failing = FailingActions()
    private var rates: ActionRates
    private let faults: FaultLog
    private var pool: RequestPool?
    private var feedAnnouncer: Announcer?
    private var announcer: Announcer?
    private var snapshots: SnapshotPool?
    private var exports: ExportRunner?
    private var appends: AppendWriter?
    private var commitsOfTick = 0
    private var isStopping = false
    private var stopLimit: Alarm?

    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ metrics: StoreMetrics, _ postgres: PostgresMetrics, _ messages: Mailbox<StoreMessage>,
        committed: @escaping () -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.metrics = metrics
        rates = ActionRates(configuration)
        faults = FaultLog(loop, logger, of: "store")
        super.init()
        try loop.add(self)
        stopLimit = try Alarm(loop) { [weak self] in self?.stopOverdue() }
        feedAnnouncer = try Announcer(loop) {
            committed()
            return .told
        }
        announcer = try Announcer(loop, configuration.announceInterval, metrics.announced) { [weak self] in
            self?.announce() == true ? .underWay : .failed
        }
        let changed = { [weak self] in
            if let self { self.loop.markDirty(self) }
        }
        let snapshots = try SnapshotPool(
            loop, configuration, parameters, logger, postgres.meter(.query), faults, changed: changed)
        self.snapshots = snapshots
        exports = ExportRunner(loop, messages, snapshots.pool, faults, readingsMax: snapshots.leasesMax)
        if configuration.routes.appends > 0 {
            appends = try AppendWriter(
                loop, configuration, parameters, logger, postgres.meter(.write), faults, skipped: metrics.skippedAppends
            )
        }
        let pool = try RequestPool(
            loop, parameters, Self.settings(configuration, postgres.meter(.write)), logger, changed: changed)
        self.pool = pool
        pool.start()
    }

    private static func settings(
        _ configuration: StoreConfiguration, _ meter: PostgresConnectionMetrics
    ) -> PoolSettings {
        let count = max(1, min(configuration.connections, StoreLimits.connectionsMax))
        let few = FairQueue<TextKey, Request>.Bounds(count: 1, countOfKey: 1)
        var settings = PoolSettings(
            connections: (1...count).map { ("writing connection \($0)", meter) }, depth: configuration.depth,
            connectTimeout: configuration.connectTimeout, statementTimeout: configuration.statementTimeout,
            greeting: (
                """
                SELECT set_config('sync.notify', 'off', false), set_config('lock_timeout', $1, false),
                    set_config('statement_timeout', $2, false),
                    set_config('idle_in_transaction_session_timeout', '10s', false),
                    set_config('idle_session_timeout', '0', false), set_config('sync.lineage', '', false),
                    set_config('sync.system', '', false),
                    set_config('default_transaction_isolation', 'read committed', false)
                """, [configuration.lockTimeout.setting, configuration.statementTimeout.setting]
            ),
            // In the order of `Kind`.
            kinds: [
                PoolSettings.Kind(few, isSerial: true),
                PoolSettings.Kind(
                    .init(
                        count: configuration.waitingMax, countOfKey: configuration.waitingPerUserMax,
                        cost: configuration.waitingBytesMax, newcomersShare: StoreLimits.newcomersShare),
                    isSerial: true, batching: ActionTransaction.batching),
            ], outages: .toldUnlessSent, lossesMax: StoreLimits.lossesMax)
        settings.prepared = [Action.apply]
        settings.holdPause = configuration.lockTimeout
        #if DEBUG
        if let failpoints = configuration.failpoints {
            settings.failpoint = { ($1 is Action || $1 is ActionTransaction) && failpoints.reached($0) }
        }
        #endif
        return settings
    }

    func received(_ message: StoreMessage) {
        switch message {
        case .submit(let request): submitted(request)
        case .ask(let request): snapshots?.ask(request)
        case .append(let request):
            if let appends { appends.append(request) } else { request.answer(.noRoom) }
        case .export(let request): exports?.ask(request)
        case .pullExport(let number, let piece): exports?.pull(number, piece)
        case .endExport(let number): exports?.end(number)
        case .stop: stop()
        }
        loop.markDirty(self)
    }

    override func tickEnded() {
        pool?.pump()
        snapshots?.pump()
        let isCrowded = pool?.isCrowded == true && !isStopping
        let commits = exchange(&commitsOfTick, with: 0)
        feedAnnouncer?.tell(commits, now: loop.now, atOnce: isStopping, isCrowded: isCrowded)
        announcer?.tell(commits, now: loop.now, atOnce: isStopping, isCrowded: isCrowded)
        if isStopping { endWhereDone() }
        // What comes meanwhile is handled in one tick, and wakes nobody.
        if isCrowded { usleep(StoreLimits.crowdedRestMicroseconds) }
    }

    // MARK: In

    private func submitted(_ request: ActionRequest) {
        let now = loop.now
        let key = request.envelope.key
        if let refusal = refusal(request, now) { return request.answer(refusal) }
        let time = request.chain == nil ? configuration.actionTimeout : configuration.chainTimeout
        let deadline = now.advanced(by: time)
        guard let action = Action(request, kind: Kind.action.rawValue, deadline: deadline, self) else {
            return request.answer(.invalid(key: key, path: nil, message: "a text holds a NUL"))
        }
        if pool?.append(action) == true { rates.take(action, now: now) }
    }

    private func refusal(_ request: ActionRequest, _ now: Instant) -> ActionAnswer? {
        let key = request.envelope.key
        guard !isStopping else { return .stopping(key: key) }
        if let answer = request.chain?.answer(to: key) { return answer }
        guard pool?.isAway == false else { return unavailable(key) }
        return rates.wait(request, now: now).map { wait in
            .retry(
                key: key, .rateLimited, after: wait, message: "this user or device sends faster than it may")
        }
    }

    // MARK: Out

    private func announce() -> Bool {
        guard let pool, !pool.isAway else { return false }
        return pool.append(
            CallbackRequest(kind: Kind.announcement.rawValue, of: Self.hub, Self.announcement) { [weak self] in
                self?.announced($0)
            })
    }

    private func announced(_ answer: Result<Rows, PostgresError>?) {
        // If the server refuses an announcement, the poll of the other hubs makes up for it.
        announcer?.done(answer != nil)
        if case .failure(let error)? = answer { faults.tell(error) }
        loop.markDirty(self)
    }

    // MARK: Answers

    /// The database's answer to an action. Returns what follows.
    func answered(_ action: Action, _ answer: Result<Rows, PostgresError>) -> NextStep {
        let error: PostgresError
        switch answer {
        case .success(let rows):
            guard let answer = ActionAnswer(rows) else { return .hold(.failed) }
            // `sync.refuse` corrects nothing, and has no such column.
            metrics.corrections.add(max(0, Int(clamping: rows.integer(0, 2) ?? 0)))
            decided(action, answer)
            return .decided
        case .failure(let failure):
            error = failure
        }
        faults.tell(ofAction: error)
        switch error.advice {
        case .again, .outdated:
            action.races += 1
            if action.races < StoreLimits.racesMax { return .again }
            if error.advice == .outdated { return failed(action) }
            if isBlamed(action, for: error) { return refuse(action) }
            action.finish(.busy(action.key, after: .milliseconds(100), "others write the same rows"))
            return .done
        case .locked:
            return .hold(.locked)
        case .constraint where action.violations == 0 && !action.isRefused:
            action.violations += 1
            return .again
        case .constraint, .refused:
            return refuse(action)
        case .broken:
            return failed(action)
        case .readOnly, .unavailable:
            action.races += 1
            if error.advice == .readOnly, action.races <= StoreLimits.lossesMax { return .again }
            if isBlamed(action, for: error) { return refuse(action) }
            action.finish(unavailable(action.key))
            return .done
        case .failed:
            return isBlamed(action, for: error) ? refuse(action) : .hold(.failed)
        }
    }

    /// The database's answer to several actions. Whatever goes wrong, each is then executed by itself, and only that counts.
    func answered(_ batch: ActionTransaction, _ answer: Result<Rows, PostgresError>) -> NextStep {
        switch answer {
        case .success(let rows):
            let answers = (0..<rows.count).compactMap { ActionAnswer(rows, at: $0) }
            guard answers.count == rows.count, 1...batch.actions.count ~= answers.count else { return .rest(after: 0) }
            let commitsBefore = commitsOfTick
            for (row, (action, answer)) in zip(batch.actions, answers).enumerated() {
                metrics.corrections.add(max(0, Int(clamping: rows.integer(row, 2) ?? 0)))
                decided(action, answer)
            }
            commitsOfTick = min(commitsOfTick, commitsBefore + 1)
            return answers.count == batch.actions.count ? .decided : .rest(after: answers.count)
        case .failure(let error):
            faults.tell(ofAction: error)
            return .rest(after: 0)
        }
    }

    /// The answer to an action that the database did not answer.
    func answer(to action: Action, after end: RequestFailure) -> ActionAnswer {
        switch end {
        // An action never sent to a reachable database has waited for others.
        case .expired where !action.mayBeDone && pool?.isAway == false, .full:
            .busy(action.key, after: .seconds(1), "too many actions wait")
        case .expired, .lost, .away: unavailable(action.key)
        case .held(let pause, let reason): .held(action.key, pause, reason)
        case .stopping: .stopping(key: action.key)
        }
    }

    /// Whether an error that blames the server is this action's own, raised by a trigger or by a foreign server that it
    /// asks. The server must be well, which it shows by applying other actions meanwhile. Asked once per submission, when
    /// no further attempt is made. Another writer's row lock is never blamed on an action.
    private func isBlamed(_ action: Action, for error: PostgresError) -> Bool {
        guard error.isInFunction, !action.isRefused, !isStopping,
            failing.failed(action.name, mayBeServer: true, now: loop.now)
        else { return false }
        faults.tell("an action fails while others are applied, and is rejected: see the failures before")
        return true
    }

    /// Something of the application fails for this action. If it keeps failing on a well server, a refusal is stored by a
    /// separate statement, which does not reach the failing code. So it does not block its device for ever.
    private func failed(_ action: Action) -> NextStep {
        let isHopeless = failing.failed(action.name, now: loop.now)
        guard isHopeless, !action.isRefused, !isStopping else { return .hold(.failed) }
        faults.tell(
            "an action has failed \(StoreLimits.failuresMax) times or more, and is rejected: see the failures before")
        return refuse(action)
    }

    private func refuse(_ action: Action) -> NextStep {
        guard !action.isRefused else { return .hold(.failed) }
        action.beRefused()
        return .again
    }

    private func decided(_ action: Action, _ answer: ActionAnswer) {
        if answer.status != .retry { failing.decided(action.name) }
        if answer.status == .applied || answer.status == .partial {
            commitsOfTick += 1
            failing.applied(now: loop.now)
        }
        if answer.retry == .outOfOrder {
            // The client sends it again in its turn, and it cost the database nothing.
            rates.giveBack(action, now: loop.now)
        }
        action.finish(answer)
    }

    // MARK: The end

    private func stop() {
        guard !isStopping else { return }
        isStopping = true
        exports?.stop()
        snapshots?.stop()
        pool?.stop()
        stopLimit?.set(after: configuration.statementTimeout)
    }

    private func endWhereDone() {
        guard pool?.isIdle != false, announcer?.isQuiet != false || pool?.isAway == true else { return }
        loop.handle.stop()
    }

    private func stopOverdue() {
        pool?.abandon()
        loop.handle.stop()
    }

    private func unavailable(_ key: String) -> ActionAnswer {
        .unavailable(key, after: pool?.pause(atLeast: .milliseconds(500)) ?? .seconds(1))
    }
}
