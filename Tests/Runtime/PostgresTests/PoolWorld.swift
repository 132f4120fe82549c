import Bytes
import Clock
import Logging
import Postgres
import Reactor
import TestDatabase
import Testing

/// Bounds of a world's queues.
enum FloodLimits {
    static let ofUser = 200
}

/// A pool on a loop that the test drives.
final class PoolWorld {
    let loop: EventLoop
    let admin: BlockingConnection
    private(set) var sent: [Asked] = []
    private var made: RequestPool?
    var pool: RequestPool {
        guard let made else { preconditionFailure("a world has a pool") }
        return made
    }

    init(
        connections: Int, depth: Int = 8, outages: PoolSettings.Outages = .toldUnlessSent, lossesMax: Int = 5,
        isSerial: Bool = true, leasesMax: Int = 0, isOfReads: Bool = false, batching: Batching? = nil,
        string: String? = nil
    ) throws {
        loop = try EventLoop()
        let database = try Cluster.shared.get().database()
        admin = try database.admin()
        let bounds = FairQueue<TextKey, Request>.Bounds(count: 20_000, countOfKey: FloodLimits.ofUser)
        let meter = PostgresMetrics().meter(.query)
        var settings = PoolSettings(
            connections: (1...connections).map { ("connection \($0)", meter) }, depth: depth,
            connectTimeout: .seconds(45),
            statementTimeout: .seconds(45), greeting: ("SELECT $1::text", ["hello"]),
            kinds: [
                .init(weight: 7, bounds, isSerial: isSerial, batching: batching), .init(bounds, isSerial: isSerial),
            ], outages: outages,
            lossesMax: lossesMax)
        settings.leasesMax = leasesMax
        settings.isOfReads = isOfReads
        made = try RequestPool(
            loop, ConnectionParameters(string ?? database.hub), settings,
            Logger(label: "pool") { _ in SwiftLogNoOpLogHandler() }, changed: {})
        pool.start()
        if string == nil { try run { pool.up == connections } }
    }

    @discardableResult func send(
        _ user: String, kind: Int = 0, _ statement: PreparedStatement, _ parameters: String?...,
        deadline: Duration? = nil, follows: @escaping (String) -> NextStep = { _ in .done }
    ) throws -> Asked {
        let end = deadline.map { Instant.read().advanced(by: $0) } ?? Instant(nanoseconds: .max)
        let asked = Asked(
            kind: kind, user, statement, try #require(CStringList(parameters)), deadline: end, follows: follows)
        sent.append(asked)
        pool.append(asked)
        return asked
    }

    func tick() {
        pool.pump()
        loop.tick(waitingAtMost: .milliseconds(20))
    }

    func run(until condition: () -> Bool) throws {
        let end = Instant.read().advanced(by: .seconds(300))
        while !condition() {
            try #require(Instant.read() < end, "the condition was not met in 300 s")
            tick()
        }
    }
}

/// A request that counts what it is told.
final class Asked: Request {
    /// The answers, in few words: the first value, or a SQLSTATE.
    private(set) var answers: [String] = []
    private(set) var ends = 0
    var isWanted = true
    /// Whether it may be in a batch.
    var isShared = false
    private let follows: (String) -> NextStep

    init(
        kind: Int, _ user: String, _ statement: PreparedStatement, _ parameters: CStringList, deadline: Instant,
        follows: @escaping (String) -> NextStep
    ) {
        self.follows = follows
        super.init(Terms(kind: kind, of: TextKey(user), statement, parameters, deadline: deadline))
    }

    override var isJoinable: Bool { isShared }

    override func willBeSent() -> Bool { isWanted }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep {
        let text =
            switch answer {
            case .success(let rows): rows.string(0, 0) ?? "NULL"
            case .failure(let error): error.sqlstate?.code ?? "\(error.kind)"
            }
        answers.append(text)
        return follows(text)
    }

    /// Its answer as a part of a batch.
    func isTold(_ text: String) {
        answers.append(text)
    }

    override func ended(_ end: RequestFailure) { ends += 1 }
}
