import Clock
import Postgres
import Reactor
import TestDatabase
import Testing

/// A connection on a loop that the test drives.
final class Client {
    let loop: EventLoop
    let database: Database
    private(set) var connection: Connection
    private(set) var losses: [PostgresError] = []
    var lost: PostgresError? { losses.last }
    private(set) var notifications: [Connection.Notification] = []
    private var isReady = false

    init(string: String? = nil, connectTimeout: Duration = .seconds(45), depth: Int = 1) throws {
        loop = try EventLoop()
        database = try Cluster.shared.get().database()
        let parameters = try ConnectionParameters(string ?? database.hub)
        let nothing = Connection.Handlers(ready: {}, lost: { _ in })
        connection = Connection(loop: loop, parameters: parameters, handlers: nothing)
        connection = Connection(
            loop: loop, parameters: parameters, connectTimeout: connectTimeout, depth: depth,
            handlers: Connection.Handlers(
                ready: { [unowned self] in isReady = true },
                notified: { [unowned self] in notifications.append($0) },
                lost: { [unowned self] in losses.append($0) }))
        connection.connect()
        try run { isReady || lost != nil }
    }

    deinit {
        connection.close()
    }

    func run(until condition: () -> Bool) throws {
        let end = Instant.read().advanced(by: .seconds(50))
        while !condition() {
            try #require(Instant.read() < end, "the condition was not met in 50 s; lost: \(lost?.description ?? "no")")
            loop.tick(waitingAtMost: .milliseconds(100))
        }
    }
}
