import Clock
import Logging
import Postgres
import Reactor

/// The jobs on their loop: one connection, one batch at a time. `JobPlan` decides which.
final class JobsLoop {
    private let loop: EventLoop
    private let configuration: JobsConfiguration
    private let metrics: JobsMetrics
    private let faults: FaultLog
    private let did: (Job) -> Void
    private var plan: JobPlan
    private var slot: ConnectionSlot?
    private var due: Alarm?

    init(
        _ loop: EventLoop, _ configuration: JobsConfiguration, _ parameters: ConnectionParameters, _ logger: Logger,
        _ metrics: JobsMetrics, _ meter: PostgresConnectionMetrics, _ did: @escaping (Job) -> Void
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.metrics = metrics
        self.did = did
        faults = FaultLog(loop, logger, of: "jobs")
        plan = JobPlan(configuration.jobs, delay: configuration.retainDelay, now: .read())
        due = try Alarm(loop) { [weak self] in self?.go() }
        slot = try ConnectionSlot(
            "the connection of jobs", loop: loop, parameters: parameters, connectTimeout: configuration.connectTimeout,
            logger: logger, meter: meter, greeting: JobStatement.greeting(retainDays: configuration.retainDays),
            handlers: ConnectionSlot.Handlers(
                opened: { [weak self] _ in self?.go() }, lost: { [weak self] in self?.due?.unset() }))
        slot?.connect()
    }

    /// Runs the job that is due, or waits for one.
    private func go() {
        guard slot?.isUp == true else { return }
        switch plan.next(now: .read()) {
        case .run(let job, let batch): run(job, batch)
        case .wait(let time): due?.set(after: time)
        case nil: break
        }
    }

    private func run(_ job: Job, _ batch: Int) {
        let start = Instant.read()
        // Longer than the server's own timeout, which ends the statement and not the connection.
        slot?.connection?.query(
            JobStatement.run, [job.name, String(batch), nil], timeout: JobsLimits.statementTimeout * 2
        ) { [weak self] answer in
            self?.ended(job, answer, after: Instant.read().duration(since: start))
        }
    }

    private func ended(_ job: Job, _ answer: Result<Rows, PostgresError>, after time: Duration) {
        let now = Instant.read()
        switch answer {
        case .success(let rows):
            guard let result = BatchResult(rows.strings()) else {
                return failed(job, PostgresError(.unexpectedResult, "sync.job gave another row than expected"))
            }
            metrics.ran(job, result, for: time)
            if result.count > 0 { did(job) }
            plan.ran(job, count: result.count, isMore: result.isMore, for: time, now: now)
            if result.count > 0, job.writesEvents { announce() } else { go() }
        case .failure(let error):
            failed(job, error)
        }
    }

    /// Wakes the hubs, then goes on. Where that fails, their polls find the events.
    private func announce() {
        slot?.connection?.query(JobStatement.announcement, timeout: JobsLimits.statementTimeout * 2) {
            [weak self] answer in
            guard let self else { return }
            guard case .failure(let error) = answer else { return go() }
            // Others may have held NOTIFY's lock for long.
            if !error.isLostRace { faults.tell("the hubs were not woken: \(error.description)") }
            slot?.failed(error)
            go()
        }
    }

    private func failed(_ job: Job, _ error: PostgresError) {
        metrics.failed(job)
        plan.failed(job, now: .read())
        if !error.isInFunction, error.sqlstate?.fault == .schema {
            // The schema or `sync.job` is missing, so for all jobs: one line tells of them.
            faults.tell("none runs: \(error.description)")
        } else if !error.isLostRace {
            faults.tell("\(job.name) failed: \(error.description)")
        }
        slot?.failed(error)
        go()
    }
}
