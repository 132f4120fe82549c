import Clock
import Foundation
import Histogram
import Postgres
import Reactor
import Synchronization

/// Threads that change rows, each on its own connection, until the transactions are made or time is up.
///
/// Their row `n` belongs to writer `n` modulo their number. So one writer makes a row's revisions, while a user's rows
/// belong to several writers: their transactions meet at the user's streams.
final class Writers: Sendable {
    struct Pace: Sendable {
        /// Transactions of all writers; nil for no end.
        var transactions: Int?
        /// When to stop regardless; nil for never.
        var duration: Duration?
        /// Transactions per second of all writers; nil for as fast as the window allows.
        var rate: Double?
        var rowsPerTransaction = 1
    }

    private let url: String
    private let session: String
    private let population: Population
    private let book: CommitBook
    private let window: Window
    private let count: Int
    private let rows: [Int]
    private let running = Atomic<Int>(0)
    private let stopping = Atomic<Bool>(false)
    private let remaining = Atomic<Int>(0)
    private let complaint = Mutex<String?>(nil)
    private let answers = Mutex(Histogram<UInt64>(numberOfSignificantValueDigits: .three))

    /// `count` writers, at most one per row; each sends the statements of `session` when it has connected.
    ///
    /// - Parameter rows: which they change; nil for all.
    init(
        _ count: Int, _ url: String, session: String = "", _ population: Population, rows: [Int]? = nil,
        _ book: CommitBook, _ window: Window
    ) {
        self.rows = rows ?? Array(0..<population.rows)
        self.count = min(count, self.rows.count)
        self.url = url
        self.session = session
        self.population = population
        self.book = book
        self.window = window
    }

    var areRunning: Bool { running.load(ordering: .acquiring) > 0 }

    /// The first writer's failure, which stops all of them.
    var failure: String? { complaint.withLock { $0 } }

    /// Nanoseconds from sending COMMIT to the database's answer, since the start: the part that is not the hub's.
    var commitTimes: Histogram<UInt64> { answers.withLock { $0 } }

    /// Starts the threads. Not while they run.
    func start(_ pace: Pace) {
        stopping.store(false, ordering: .relaxed)
        answers.withLock { $0.reset() }
        remaining.store(pace.transactions ?? .max, ordering: .relaxed)
        running.store(count, ordering: .releasing)
        for number in 0..<count {
            Thread.detachNewThread { [self] in
                do {
                    try write(number, pace)
                } catch {
                    complaint.withLock { $0 = $0 ?? "writer \(number): \(error)" }
                    stop()
                }
                running.subtract(1, ordering: .releasing)
            }
        }
    }

    /// Asks the writers to end after their current transaction, and frees those waiting for the window.
    func stop() {
        stopping.store(true, ordering: .relaxed)
        window.release(Limits.inFlightMax)
    }

    // MARK: One writer

    private func write(_ number: Int, _ pace: Pace) throws {
        let connection = try BlockingConnection(url)
        try population.prepare(connection)
        try connection.execute(session)
        let own = stride(from: number, to: rows.count, by: count).map { rows[$0] }
        let rowsEach = min(pace.rowsPerTransaction, own.count)
        let began = Instant.read()
        let end = pace.duration.map { began.advanced(by: $0) }
        var next = 0
        var made = 0
        while takeOne() {
            if let rate = pace.rate {
                // The schedule is fixed: a slow commit does not delay those that follow.
                let due = Double(made * count + number) / rate
                sleep(until: began.advanced(by: .nanoseconds(Int64(min(due * 1e9, 1e18)))))
            }
            window.reserve(rowsEach)
            if stopping.load(ordering: .relaxed) { return }
            if let end, Instant.read() >= end { return window.release(rowsEach) }
            let rows = (0..<rowsEach).map { own[(next + $0) % own.count] }
            next = (next + rowsEach) % own.count
            made += 1
            try population.beginChange(of: rows.map { ($0, book.revision($0)) }, connection)
            let now = Instant.read()
            for row in rows { book.committing(row, at: now) }
            try connection.execute("commit")
            let answered = Instant.read()
            answers.withLock { _ = $0.record(max(1, answered.nanoseconds - now.nanoseconds)) }
            book.committed.add(rowsEach, ordering: .releasing)
        }
    }

    private func takeOne() -> Bool {
        remaining.subtract(1, ordering: .relaxed).newValue >= 0
    }
}
