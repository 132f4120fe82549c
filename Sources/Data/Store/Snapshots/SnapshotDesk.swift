import Clock
import Logging
import Postgres
import Reactor

/// The questions for snapshots: users in turn, on connections of their own, so that no reader holds up an action, and
/// nobody whose questions are slow those of others. Belongs to the store's loop.
///
/// Invariants:
/// - Each question is answered exactly once, at its deadline at the latest.
/// - What waits is bounded (`StoreLimits.snapshotsMax`, `snapshotsPerUserMax`); where it is known that the database is
///   away, nothing waits for long (`Outage`), and what comes then is answered at once.
/// - A question that was lost with its connection is asked once more, before the others: it changes nothing.
final class SnapshotDesk {
    private static let sweepInterval = Duration.milliseconds(250)

    private let loop: EventLoop
    private let timeout: Duration
    private let faults: FaultLog
    private var queue = SnapshotQueue()
    private var readers: [SnapshotReader] = []
    private var sweep: Alarm?
    private var outage = Outage()
    private var isStopping = false

    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ meter: ConnectionMeter, _ faults: FaultLog
    ) throws(ReactorError) {
        self.loop = loop
        self.faults = faults
        timeout = configuration.actionTimeout
        sweep = try Alarm(loop) { [weak self] in self?.sweepDue() }
        for number in 1...max(1, min(configuration.queryConnections, StoreLimits.queryConnectionsMax)) {
            readers.append(
                try SnapshotReader(
                    number, loop, parameters, configuration, logger, meter,
                    SnapshotReader.Handlers(
                        up: { [weak self] in self?.up() },
                        answered: { [weak self] in self?.answered($0, $1, $2) },
                        lost: { [weak self] in self?.lost($0) })))
        }
        for reader in readers { reader.start() }
    }

    /// Takes a question.
    func ask(_ request: SnapshotRequest) {
        guard !isStopping, !outage.isOn else { return request.answer(unavailable) }
        guard let read = SnapshotRead(request, now: loop.now, timeout: min(timeout, request.function.timeout)) else {
            return request.answer(.missing)
        }
        guard queue.append(read) else { return read.finish(unavailable) }
        pump()
        sweep?.set(within: Self.sweepInterval)
    }

    /// Answers all that is left.
    func stop() {
        isStopping = true
        answerWaiting()
        for reader in readers {
            for read in reader.underWay { read.finish(unavailable) }
        }
    }

    private func pump() {
        while let reader = freest(), let read = queue.next() {
            read.sentAt = loop.now
            reader.send(read)
        }
    }

    /// The reader with the least under way, of those that have room and are not held up.
    private func freest() -> SnapshotReader? {
        let now = loop.now
        return readers.filter {
            guard let first = $0.underWay.first else { return $0.isUp }
            return $0.isUp && $0.underWay.count < StoreLimits.snapshotDepth
                && now.duration(since: first.sentAt) < StoreLimits.snapshotPatience
        }
        .min { $0.underWay.count < $1.underWay.count }
    }

    // MARK: Calls of the readers

    private func up() {
        outage.ends()
        pump()
    }

    private func answered(_ reader: SnapshotReader, _ read: SnapshotRead, _ answer: Result<Rows, PostgresError>) {
        switch answer {
        case .success(let rows):
            queue.done(read)
            read.finish(SnapshotAnswer(rows))
        case .failure(let error):
            let code = error.kind == .statement ? error.sqlstate?.code : ""
            switch code {
            case "26000", "0A000":
                read.races += 1
                again(read, unless: read.races >= StoreLimits.racesMax)
            case .some(let code) where code.isEmpty || code.hasPrefix("08") || code.hasPrefix("57P"):
                // The connection ends, or as good as that.
                return reader.drop(error, with: read)
            default:
                queue.done(read)
                if let code, read.function.refusals.contains(code) {
                    read.finish(.refused(code))
                } else {
                    faults.tell(error)
                    read.finish(unavailable)
                }
            }
        }
        pump()
    }

    private func lost(_ reads: [SnapshotRead]) {
        if !readers.contains(where: { $0.isUp }) { outage.begins(at: loop.now) }
        for read in reads.reversed() {
            read.losses += 1
            again(read, unless: isStopping || read.losses > 1)
        }
        pump()
    }

    /// Puts a question back in front, unless it has its answer or has had its turns.
    private func again(_ read: SnapshotRead, unless isOver: Bool) {
        guard isOver || read.isAnswered else { return queue.again(read) }
        queue.done(read)
        read.finish(unavailable)
    }

    // MARK: Time

    private func sweepDue() {
        let now = loop.now
        if outage.isLong(at: now) { answerWaiting() }
        for read in queue.expire(now: now) { read.finish(unavailable) }
        var isIdle = queue.count == 0
        for reader in readers {
            for read in reader.underWay where !read.isAnswered {
                if read.deadline <= now { read.finish(unavailable) } else { isIdle = false }
            }
        }
        if !isIdle { sweep?.set(after: Self.sweepInterval) }
    }

    private func answerWaiting() {
        for read in queue.removeWaiting() { read.finish(unavailable) }
    }

    /// Those who wait come back spread over as long again.
    private var unavailable: SnapshotAnswer {
        .unavailable(after: outage.pause(atLeast: .seconds(1), at: loop.now) * Double.random(in: 1...2))
    }
}
