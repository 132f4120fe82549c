import Glibc
import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

/// The connection on a loop, against a real server.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ConnectionTests {
    @Test func answersInOrder() throws {
        let client = try Client()
        var answers: [String?] = []
        for number in 1...5 {
            client.connection.query("SELECT $1::int * 2, $2::text", [String(number), nil]) { answer in
                answers.append((try? answer.get())?.string(0, 0))
                #expect((try? answer.get())?.isNull(0, 1) == true)
            }
        }
        try client.run { answers.count == 5 }
        #expect(answers == ["2", "4", "6", "8", "10"])
        #expect(client.connection.isIdle)
    }

    @Test func arraysOfNumbers() throws {
        let client = try Client()
        var rows: Rows?
        client.connection.query(
            """
            SELECT '{}'::bigint[], '{7}'::bigint[], '{1,-2,9223372036854775807,-9223372036854775808}'::bigint[], \
            '{1,NULL}'::bigint[], '{{1},{2}}'::bigint[], NULL::bigint[], '', '{', '}', '{1,}', '{,}', '{9223372036854775808}'
            """
        ) { rows = try? $0.get() }
        try client.run { rows != nil }
        let answer = try #require(rows)
        #expect(answer.integers(0, 0) == [])
        #expect(answer.integers(0, 1) == [7])
        #expect(answer.integers(0, 2) == [1, -2, .max, .min])
        for column in 3...12 { #expect(answer.integers(0, column) == nil, "column \(column)") }
        #expect(answer.integers(1, 0) == nil)
    }

    @Test func bigAnswersAndBigParametersPass() throws {
        let client = try Client()
        let text = String(repeating: "x", count: 3_000_000)
        var length: Int?
        client.connection.query("SELECT $1::text || $1::text", [text]) { answer in
            length = (try? answer.get())?.withBytes(0, 0) { $0.count }
        }
        try client.run { length != nil }
        #expect(length == 6_000_000)
    }

    @Test func errorsNameCodesAndNoValues() throws {
        let client = try Client()
        var errors: [PostgresError] = []
        func keep(_ answer: Result<Rows, PostgresError>) {
            if case .failure(let error) = answer { errors.append(error) }
        }
        client.connection.query("SELECT $1::int", ["aspirin"], keep)
        client.connection.query("SELECT 1/0", [], keep)
        client.connection.query("SELECT * FROM nowhere", [], keep)
        client.connection.query("COPY (SELECT 1) TO STDOUT", [], keep)
        try client.run { errors.count == 3 && client.lost != nil }
        #expect(errors.map(\.sqlstate) == ["22P02", "22012", "42P01"])
        #expect(errors.allSatisfy { $0.kind == .statement && $0.severity == .error })
        #expect(!errors.map(\.description).joined().contains("aspirin"))
        // A COPY would never end.
        #expect(client.lost?.kind == .unexpectedResult)
    }

    /// PostgreSQL's code says that a right is missing, and not whose.
    @Test(arguments: [1, 4]) func aMissingRightNamesTheFunction(_ depth: Int) throws {
        let client = try Client(depth: depth)
        var errors: [PostgresError] = []
        let prepared = PreparedStatement("SELECT * FROM sync.timeline() AS t")
        for _ in 0..<2 {
            client.connection.execute(prepared, CStringList()) {
                if case .failure(let error) = $0 { errors.append(error) }
            }
        }
        client.connection.query("SELECT count(*) FROM sync.event") {
            if case .failure(let error) = $0 { errors.append(error) }
        }
        try client.run { errors.count == 3 }
        let call = "the role lacks a right: it may not call sync.timeline (SQLSTATE 42501)"
        #expect(errors.map(\.description) == [call, call, "the role lacks a right (SQLSTATE 42501)"])
        #expect(errors.allSatisfy { $0.sqlstate == "42501" && $0.advice == .failed })
    }

    @Test func aParameterWithNULIsNotSent() throws {
        let client = try Client()
        var error: PostgresError?
        client.connection.query("SELECT $1::text", ["demo\0x"]) {
            if case .failure(let failure) = $0 { error = failure }
        }
        #expect(error?.kind == .notSent)
    }

    @Test func boundOnWaitingStatements() throws {
        let client = try Client()
        var answered = 0
        var refused = 0
        for _ in 0..<PostgresLimits.waitingStatementsMax + 2 {
            client.connection.query("SELECT 1") { if case .success = $0 { answered += 1 } else { refused += 1 } }
        }
        #expect(refused == 1)
        try client.run { answered == PostgresLimits.waitingStatementsMax + 1 }
    }

    @Test func boundOnParameters() throws {
        let client = try Client()
        var refused = false
        let parameters = [String?](repeating: "1", count: PostgresLimits.parametersMax + 1)
        client.connection.query("SELECT 1", parameters) { if case .failure = $0 { refused = true } }
        #expect(refused)
    }

    @Test func notificationsArrive() throws {
        let client = try Client()
        let admin = try client.database.admin()
        var isListening = false
        client.connection.query("LISTEN news") { _ in isListening = true }
        try client.run { isListening }
        try admin.execute("NOTIFY news, 'one'; NOTIFY news, 'two'; NOTIFY other, 'three'")
        try client.run { client.notifications.count == 2 }
        #expect(client.notifications.map(\.payload) == ["one", "two"])
    }

    @Test func aTerminatedBackendIsALoss() throws {
        let client = try Client()
        let admin = try client.database.admin()
        var isAnswered = false
        client.connection.query("SELECT pg_sleep(60)") { _ in isAnswered = true }
        client.connection.query("SELECT 2") { _ in isAnswered = true }
        _ = try admin.query("SELECT pg_terminate_backend($1::int)", [String(client.connection.backendPID)])
        try client.run { client.lost != nil }
        #expect(client.lost?.kind == .lost)
        #expect(!isAnswered)
        #expect(!client.connection.isReady)
    }

    @Test func aSlowStatementEndsTheConnection() throws {
        let client = try Client()
        var isAnswered = false
        client.connection.query("SELECT pg_sleep(60)", timeout: .milliseconds(50)) { _ in isAnswered = true }
        try client.run { client.lost != nil }
        #expect(client.lost?.kind == .timeout)
        #expect(!isAnswered)
    }

    @Test func aCompletionMayClose() throws {
        let client = try Client()
        var answers = 0
        for _ in 0..<3 {
            client.connection.query("SELECT 1") { _ in
                answers += 1
                client.connection.close()
            }
        }
        try client.run { answers == 1 }
        #expect(client.lost == nil)
        #expect(client.loop.sourceCount == 0)
    }

    @Test func aCompletionMaySendTheNext() throws {
        let client = try Client()
        var answers = 0
        func next() {
            client.connection.query("SELECT 1") { _ in
                answers += 1
                if answers < 100 { next() }
            }
        }
        next()
        try client.run { answers == 100 }
    }

    @Test func aServerThatIsNotThereIsALoss() throws {
        let client = try Client(string: "host=/nonexistent dbname=x user=y password=secret")
        #expect(client.lost?.kind == .connecting)
        #expect(client.lost?.description.contains("/nonexistent") == true)
        #expect(client.lost?.description.contains("secret") == false)
        #expect(client.loop.sourceCount == 0)
    }

    @Test func anUnknownRoleIsALossThatSaysSo() throws {
        let database = try Cluster.shared.get().database()
        let client = try Client(string: database.cluster.string(database.name, role: "stranger"))
        #expect(client.lost?.description.contains("stranger") == true)
    }

    /// A server that accepts and says nothing.
    @Test func connectingHasADeadline() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                #expect(bind(listener, pointer, length) == 0)
                #expect(listen(listener, 1) == 0)
                #expect(getsockname(listener, pointer, &length) == 0)
            }
        }
        let port = UInt16(bigEndian: address.sin_port)
        let client = try Client(
            string: "host=127.0.0.1 port=\(port) dbname=x user=y sslmode=disable", connectTimeout: .milliseconds(50))
        #expect(client.lost?.kind == .timeout)
    }
}
