import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

/// Statements sent before earlier ones are answered, against a real server.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct PipelineTests {
    /// A statement's outcome, in few words.
    private static func text(_ answer: Result<Rows, PostgresError>) -> String {
        switch answer {
        case .success(let rows): rows.string(0, 0) ?? "NULL"
        case .failure(let error): error.sqlstate?.code ?? "\(error.kind)"
        }
    }

    private static func list(_ strings: String?...) throws -> CStringList {
        try #require(CStringList(strings))
    }

    @Test(arguments: [1, 2, 8, 64]) func answersInOrder(depth: Int) throws {
        let client = try Client(depth: depth)
        let double = PreparedStatement("SELECT $1::int * 2")
        var answers: [String] = []
        for number in 1...40 {
            let parameters = try Self.list("\(number)")
            client.connection.execute(double, parameters) { answers.append(Self.text($0)) }
        }
        #expect(!client.connection.isIdle)
        try client.run { answers.count == 40 }
        #expect(answers == (1...40).map { "\($0 * 2)" })
        #expect(client.connection.isIdle)
    }

    @Test func anErrorLeavesItsNeighboursAlone() throws {
        let client = try Client(depth: 8)
        let admin = try client.database.admin()
        try admin.execute("CREATE TABLE t (n int); GRANT ALL ON t TO PUBLIC")
        let insert = PreparedStatement("INSERT INTO t VALUES ($1::int / $2::int) RETURNING n")
        var answers: [String] = []
        for divisor in ["1", "0", "2", "x", "3"] {
            client.connection.execute(insert, try Self.list("6", divisor)) { answers.append(Self.text($0)) }
        }
        try client.run { answers.count == 5 }
        #expect(answers == ["6", "22012", "3", "22P02", "2"])
        #expect(try admin.query("SELECT n FROM t ORDER BY n") == [["2"], ["3"], ["6"]])
        #expect(client.losses.isEmpty)
    }

    /// The rows come, and then the commit fails: reporting success at the rows would be a lie.
    @Test(arguments: [1, 8]) func aFailureAtCommitAfterTheRowsIsAFailure(depth: Int) throws {
        let client = try Client(depth: depth)
        let admin = try client.database.admin()
        try admin.execute(
            """
            CREATE TABLE t (n int PRIMARY KEY, other int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
            GRANT ALL ON t TO PUBLIC
            """)
        let insert = PreparedStatement("INSERT INTO t VALUES ($1::int, $2::int) RETURNING n")
        var answers: [String] = []
        for (number, other) in [("1", "1"), ("2", "9"), ("3", "1"), ("4", "9"), ("5", nil)] {
            client.connection.execute(insert, try Self.list(number, other)) { answers.append(Self.text($0)) }
        }
        try client.run { answers.count == 5 }
        #expect(answers == ["1", "23503", "3", "23503", "5"])
        #expect(try admin.query("SELECT n FROM t ORDER BY n") == [["1"], ["3"], ["5"]])
    }

    @Test func bigAnswersAndBigParametersPass() throws {
        let client = try Client(depth: 8)
        let twice = PreparedStatement("SELECT $1::text || $1::text")
        var random = SeededRandom()
        let sizes = (0..<30).map { _ in [10, 8_191, 16_384, 20_000, 3_000_000].randomElement(using: &random) ?? 10 }
        var lengths: [Int] = []
        func send(_ index: Int) throws {
            let parameters = try Self.list(String(repeating: "x", count: sizes[index]))
            client.connection.execute(twice, parameters) { answer in
                lengths.append((try? answer.get())?.withBytes(0, 0) { $0.count } ?? -1)
            }
        }
        for index in sizes.indices { try send(index) }
        try client.run { lengths.count == sizes.count }
        #expect(lengths == sizes.map { $0 * 2 }, "seed \(random.seed)")
    }

    @Test func aTerminatedBackendLosesAllInFlightOnce() throws {
        let client = try Client(depth: 8)
        let admin = try client.database.admin()
        var answers: [String] = []
        client.connection.query("SELECT 1") { answers.append(Self.text($0)) }
        for _ in 0..<6 { client.connection.query("SELECT pg_sleep(60)") { answers.append(Self.text($0)) } }
        try client.run { answers.count == 1 }
        _ = try admin.query("SELECT pg_terminate_backend($1::int)", [String(client.connection.backendPID)])
        try client.run { client.lost != nil }
        #expect(client.losses.map(\.kind) == [.lost])
        #expect(answers == ["1"])
        #expect(client.loop.sourceCount == 0)
    }

    @Test func theOldestInFlightHasADeadline() throws {
        let client = try Client(depth: 8)
        var answers: [String] = []
        // This answer must come, however busy the machine is.
        client.connection.query("SELECT 1") { answers.append(Self.text($0)) }
        client.connection.query("SELECT pg_sleep(60)", timeout: .milliseconds(50)) { answers.append(Self.text($0)) }
        client.connection.query("SELECT 3", timeout: .milliseconds(50)) { answers.append(Self.text($0)) }
        try client.run { client.lost != nil }
        #expect(client.losses.map(\.kind) == [.timeout])
        #expect(answers == ["1"])
    }

    /// The statement before it is slow, not this one.
    @Test func waitingInThePipelineIsNoDelayOfOnesOwn() throws {
        let client = try Client(depth: 8)
        var answers: [String] = []
        client.connection.query("SELECT 1 FROM pg_sleep(0.3)") { answers.append(Self.text($0)) }
        client.connection.query("SELECT 2", timeout: .milliseconds(200)) { answers.append(Self.text($0)) }
        try client.run { answers.count == 2 || client.lost != nil }
        #expect(answers == ["1", "2"])
    }

    @Test func noticesAreIgnored() throws {
        let client = try Client(depth: 8)
        let admin = try client.database.admin()
        try admin.execute(
            """
            CREATE FUNCTION talk(n int) RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN RAISE NOTICE 'aspirin %', n; RAISE WARNING 'aspirin'; RETURN n; END $$
            """)
        let talk = PreparedStatement("SELECT talk($1::int)")
        var answers: [String] = []
        for number in 1...10 {
            client.connection.execute(talk, try Self.list("\(number)")) { answers.append(Self.text($0)) }
        }
        try client.run { answers.count == 10 }
        #expect(answers == (1...10).map { "\($0)" })
    }

    @Test func aForgottenStatementIsPreparedAnew() throws {
        let client = try Client(depth: 4)
        let one = PreparedStatement("SELECT $1::text")
        var answers: [String] = []
        func ask() throws {
            let count = answers.count
            client.connection.execute(one, try Self.list("a")) { answers.append(Self.text($0)) }
            try client.run { answers.count == count + 1 }
        }
        try ask()
        client.connection.query("DEALLOCATE ALL") { _ in }
        try ask()
        try ask()
        #expect(answers == ["a", "26000", "a"])
    }

    @Test func aPlanOutOfDateIsPreparedAnew() throws {
        let client = try Client(depth: 4)
        let admin = try client.database.admin()
        try admin.execute("CREATE TABLE t AS SELECT 'a'::text AS v; GRANT ALL ON t TO PUBLIC")
        let read = PreparedStatement("SELECT * FROM t")
        var answers: [String] = []
        func ask() throws {
            let count = answers.count
            client.connection.execute(read, CStringList()) { answers.append(Self.text($0)) }
            try client.run { answers.count == count + 1 }
        }
        try ask()
        try admin.execute("ALTER TABLE t ALTER COLUMN v TYPE varchar(9)")
        try ask()
        try ask()
        #expect(answers == ["a", "0A000", "a"])
    }

    /// The execution too is answered once. Where it had to wait, it is told what preparing was told.
    @Test(arguments: [(1, "42883"), (2, "26000"), (4, "26000")])
    func aPreparationTellsWhatIsWrong(depth: Int, executed: String) throws {
        let client = try Client(depth: depth)
        let wrong = PreparedStatement("SELECT nowhere($1::int)")
        var answers: [String] = []
        client.connection.prepare(wrong) { answers.append(Self.text($0)) }
        client.connection.execute(wrong, try Self.list("1")) { answers.append(Self.text($0)) }
        client.connection.query("SELECT 1") { answers.append(Self.text($0)) }
        try client.run { answers.count == 3 }
        #expect(answers == ["42883", executed, "1"])
        // A migration adds the function.
        try client.database.admin().execute("CREATE FUNCTION nowhere(int) RETURNS int LANGUAGE sql AS 'SELECT 5'")
        client.connection.execute(wrong, try Self.list("1")) { answers.append(Self.text($0)) }
        try client.run { answers.count == 4 }
        #expect(answers.last == "5")
    }

    @Test func aCompletionMayCloseOrSend() throws {
        let client = try Client(depth: 8)
        var answers: [String] = []
        func next(_ number: Int) {
            client.connection.query("SELECT \(number)") {
                answers.append(Self.text($0))
                if number < 50 { next(number + 1) } else { client.connection.close() }
            }
        }
        next(1)
        for _ in 0..<20 { client.connection.query("SELECT 0") { answers.append(Self.text($0)) } }
        try client.run { client.loop.sourceCount == 0 }
        #expect(answers.filter { $0 != "0" } == (1...50).map { "\($0)" })
        #expect(client.losses.isEmpty)
    }

    @Test func boundOnStatements() throws {
        let client = try Client(depth: 8)
        var answers: [String] = []
        for _ in 0..<8 + PostgresLimits.waitingStatementsMax + 2 {
            client.connection.query("SELECT 1") { answers.append(Self.text($0)) }
        }
        #expect(answers == ["notSent", "notSent"])
        try client.run { answers.count == 8 + PostgresLimits.waitingStatementsMax + 2 }
        #expect(answers.dropFirst(2).allSatisfy { $0 == "1" })
    }
}
