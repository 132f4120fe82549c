import Clock
import Metrics
import Reactor

/// Metrics of the jobs.
package final class JobsMetrics: MetricSource {
    private let batches = CounterTable("type", Job.allCases.map(\.name), by: "result", ["done", "nothing", "failed"])
    private let changes = CounterTable("type", Job.allCases.map(\.name))
    private let seconds = Histogram.times()
    /// In milliseconds, as the last look found it.
    private let lags = Job.allCases.filter(\.hasLag).map { (job: $0, milliseconds: Gauge()) }

    /// Metrics of jobs that have not started.
    package init() {}

    func ran(_ job: Job, _ result: BatchResult, for time: Duration) {
        seconds.record(time)
        batches[job.name, result.count > 0 ? "done" : "nothing"].add()
        changes[job.name].add(result.count)
        if let age = result.lag {
            lags.first { $0.job == job }?.milliseconds.set(Int(min(max(age, 0), 1e9) * 1_000))
        }
    }

    func failed(_ job: Job) {
        batches[job.name, "failed"].add()
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.counter("job_batches_total", "Batches of jobs, by job and result.", batches)
        exposition.counter("job_changes_total", "What jobs wrote or deleted, by job.", changes)
        exposition.counter(
            "retained_rows_deleted_total", "Old events and answers deleted.",
            Job.allCases.filter(\.isRetention).map { changes[$0.name].count }.reduce(0, +))
        exposition.histogram("job_seconds", "Time of one batch of a job.", seconds)
        exposition.gauge(
            "job_lag_seconds", "For how long the oldest of a job's work has been due.",
            lags.map { ([.init("type", $0.job.name)], Double($0.milliseconds.level) / 1_000) })
    }
}
