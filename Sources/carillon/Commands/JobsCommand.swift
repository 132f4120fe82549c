import ArgumentParser
import Clock
import Jobs
import Postgres

/// `carillon jobs`: runs one job until nothing is left of it.
struct JobsCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "jobs",
        abstract: "Run a job until nothing is left to do. Hubs run all jobs by themselves.",
        discussion: """
            It prints how much was done. While a hub runs the same job, this command does nothing, and says 0. \
            DATABASE_URL is that of carillon serve.
            """)

    static let settingsHelp = SettingsHelp(
        groups: [SettingGroup("PostgreSQL", [SettingsTable[\.database.url], SettingsTable[\.jobs.retainDays]])],
        profile: .serve, pointer: "Other settings are accepted, and not used: carillon check-config --help lists them.")

    @Option(help: "The job: \(JobsCommand.names).")
    var once: String

    @Option(help: "The time by which the job goes, such as 2026-03-01T08:00:00Z. Without it: now.")
    var clock: String?

    @OptionGroup var arguments: SettingsArguments

    private static let names = Job.allCases.map(\.name).joined(separator: ", ")

    func run() throws {
        guard let job = Job(rawValue: once) else {
            throw Failure("--once \(once): there is no such job. There are \(Self.names)", status: .configuration)
        }
        let effective = try arguments.effective(.serve)
        guard let url = effective.values.database.url else { throw effective.missing(SettingsTable[\.database.url]) }
        let stop = try StopSignal.install()
        let connection: BlockingConnection
        do {
            connection = try BlockingConnection(url)
        } catch {
            throw Failure("the database cannot be reached: \(error.reason.message)")
        }
        do {
            let greeting = JobStatement.greetingParameters(retainDays: effective.values.jobs.retainDays)
            _ = try connection.query(JobStatement.greeting, greeting)
            try run(job, on: connection, until: stop)
        } catch let error as StatementError {
            throw Failure("\(job.name) failed: \(error.line)")
        }
    }

    private func run(_ job: Job, on connection: BlockingConnection, until stop: Latch) throws {
        var pace = JobPace()
        var (count, batches) = (0, 0)
        while true {
            let start = Instant.read()
            let rows = try connection.query(JobStatement.run, [job.name, String(pace.batch), clock])
            let time = Instant.read().duration(since: start)
            guard let result = BatchResult(rows) else { throw Failure("sync.job gave another row than expected") }
            count += result.count
            batches += 1
            pace.ran(for: time, count: result.count)
            // Where that fails, the hubs' polls find the events; a lost connection shows in the next batch.
            if result.count > 0, job.writesEvents { _ = try? connection.query(JobStatement.announcement) }
            guard result.isMore else { break }
            guard !stop.wait(timeout: JobPace.pause(after: time)) else {
                throw Failure("stopped: \(Self.summary(job, count, batches)), and there may be more")
            }
        }
        say(Self.summary(job, count, batches))
    }

    private static func summary(_ job: Job, _ count: Int, _ batches: Int) -> String {
        "\(job.name): \(count) done in \(batches) \(batches == 1 ? "batch" : "batches")"
    }
}
