import Clock
import Glibc
import Postgres
import Reactor

/// A run without a hub: rows, writers that notify, and the client that listens.
final class BareDrive {
    let listener: BareListener
    private let population: Population
    private let connection: BlockingConnection
    private let book: CommitBook
    private let writers: Writers

    /// Makes the rows in the database at `url`, and listens there.
    init(_ plan: Drive.Plan, url: String, seed: UInt64) throws {
        population = Population(
            names: Names(run: "b" + String(seed, radix: 36), topics: []), kind: plan.kind, users: plan.users,
            rowsPerUser: plan.rowsPerUser, manner: plan.manner)
        connection = try BlockingConnection(url)
        book = CommitBook(rows: population.rows, inFlight: plan.inFlight)
        let window = Window(size: plan.inFlight)
        listener = BareListener(population, book, window)
        writers = Writers(plan.writers, url, population, book, window)
        try population.insert(connection)
        try listener.start(url)
    }

    /// Runs the writers, and waits until all their commits have been read. Returns changes per second.
    func measure(_ pace: Writers.Pace) throws -> Double {
        listener.restart()
        let before = book.committed.load(ordering: .acquiring)
        let began = Instant.read()
        writers.start(pace)
        var watch = StallWatch()
        while writers.areRunning || listener.completed < book.committed.load(ordering: .acquiring) {
            usleep(10_000)
            guard listener.isRunning, watch.isMoving(listener.completed) else {
                writers.stop()
                throw LoadFailure(listener.failure ?? writers.failure ?? "the listener gets nothing any more")
            }
        }
        if let failure = writers.failure { throw LoadFailure(failure) }
        let seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        return Double(book.committed.load(ordering: .acquiring) - before) / seconds
    }

    func cleanUp() {
        listener.stop()
        do {
            try population.remove(connection)
        } catch {
            complain("loadtest: the rows of the bare client could not be removed: \(error)")
        }
    }
}
