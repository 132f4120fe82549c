import CPostgres
import Clock
import Foundation
import Glibc
import Histogram
import Reactor
import Synchronization

/// A blocking client that listens to PostgreSQL on its own thread: it waits for a NOTIFY and reads the row that it names.
/// No hub can be faster for one user who may read the whole database.
final class BareListener: Sendable {
    private let population: Population
    private let book: CommitBook
    private let window: Window
    private let isStopping = Atomic<Bool>(false)
    private let running = Atomic<Bool>(false)
    private let read = Atomic<Int>(0)
    private let complaint = Mutex<String?>(nil)
    private let times = Mutex(Histogram<UInt64>(numberOfSignificantValueDigits: .three))

    /// Listens for the changes of `population`, whose commits are in `book`.
    init(_ population: Population, _ book: CommitBook, _ window: Window) {
        self.population = population
        self.book = book
        self.window = window
    }

    /// Changes whose row has been read.
    var completed: Int { read.load(ordering: .acquiring) }
    var isRunning: Bool { running.load(ordering: .acquiring) }
    /// Why it ended, unless by `stop`.
    var failure: String? { complaint.withLock { $0 } }
    /// Nanoseconds from sending COMMIT to having read the row, since `restart`.
    var latencies: Histogram<UInt64> { times.withLock { $0 } }

    func restart() {
        times.withLock { $0.reset() }
    }

    /// Starts the thread. Returns once it listens.
    func start(_ url: String) throws {
        guard let pg = PQconnectdb(url) else { throw LoadFailure("libpq: out of memory") }
        let listening = BareConnection(pg)
        for command in ["listen \(Manner.channel)", "prepare row(text) as \(Self.select)"] {
            guard let result = PQexec(pg, command) else { throw LoadFailure("the listener: \(listening.error)") }
            defer { PQclear(result) }
            guard PQresultStatus(result) == PGRES_COMMAND_OK else {
                throw LoadFailure("the listener: \(listening.error)")
            }
        }
        running.store(true, ordering: .releasing)
        Thread.detachNewThread { [self] in
            do {
                try listen(listening)
            } catch {
                complaint.withLock { $0 = "the listener: \(error)" }
            }
            running.store(false, ordering: .releasing)
        }
    }

    /// Ends the thread within its next wait.
    func stop() {
        isStopping.store(true, ordering: .relaxed)
    }

    // MARK: The thread

    private static let select = "select status, taken_at, rev from care.dose_occurrence where id = $1"

    private func listen(_ connection: borrowing BareConnection) throws {
        var revisions = [Int64](repeating: 1, count: population.rows)
        while !isStopping.load(ordering: .relaxed) {
            while let notification = PQnotifies(connection.pg) {
                let row = Int(String(cString: notification.pointee.extra))
                PQfreemem(notification)
                guard let row, revisions.indices.contains(row) else { continue }
                let revision = try connection.revision(of: population.names.id(row))
                // One read may answer two notifications.
                guard revision > revisions[row] else { continue }
                let made = Int(revision - revisions[row])
                revisions[row] = revision
                if let start = book.commitTime(row, revision) {
                    let elapsed = Instant.read().nanoseconds &- start.nanoseconds
                    times.withLock { _ = $0.record(max(1, elapsed)) }
                }
                read.add(made, ordering: .releasing)
                window.release(made)
            }
            try connection.wait()
        }
    }
}

/// A libpq connection, used as in its manual (libpq-example, "Asynchronous Notification").
private struct BareConnection: ~Copyable, @unchecked Sendable {
    // @unchecked Sendable: handed to the thread that is started with it, and used only there.
    let pg: OpaquePointer

    init(_ pg: OpaquePointer) {
        self.pg = pg
    }

    deinit {
        PQfinish(pg)
    }

    var error: String { String(cString: PQerrorMessage(pg)) }

    /// Waits at most 50 ms for bytes, and reads them.
    func wait() throws(LoadFailure) {
        var socket = pollfd(fd: PQsocket(pg), events: Int16(POLLIN), revents: 0)
        guard poll(&socket, 1, 50) >= 0 || errno == EINTR, PQconsumeInput(pg) == 1 else { throw LoadFailure(error) }
    }

    /// The row's revision, read with the rest of it.
    func revision(of id: String) throws(LoadFailure) -> Int64 {
        let result = id.withCString { text in
            var value: UnsafePointer<CChar>? = text
            return PQexecPrepared(pg, "row", 1, &value, nil, nil, 0)
        }
        defer { PQclear(result) }
        guard PQresultStatus(result) == PGRES_TUPLES_OK, PQntuples(result) == 1,
            let text = PQgetvalue(result, 0, 2), let revision = Int64(String(cString: text))
        else { throw LoadFailure(error) }
        return revision
    }
}
