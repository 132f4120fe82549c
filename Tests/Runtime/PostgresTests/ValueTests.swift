import Postgres
import TestDatabase
import TestSupport
import Testing

/// The values around a connection, and the tools' connection.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ValueTests {
    @Test(arguments: [
        ("40001", Advice.again), ("40P01", .again), ("40002", .again), ("26000", .outdated), ("0A000", .outdated),
        ("55P03", .locked), ("23505", .constraint), ("23514", .constraint), ("P0001", .refused), ("25006", .readOnly),
        ("08006", .unavailable), ("08P01", .unavailable), ("57P01", .unavailable), ("57P02", .unavailable),
        ("57P03", .unavailable), ("57014", .failed), ("57000", .failed), ("53100", .failed), ("53300", .failed),
        ("58030", .failed), ("58P01", .failed), ("F0000", .failed), ("XX001", .failed), ("XX002", .failed),
        ("25P03", .failed), ("25P04", .failed), ("HV00N", .failed), ("XX000", .broken), ("P0002", .broken),
        ("P0004", .broken), ("22P02", .broken), ("22012", .broken), ("21000", .broken), ("25001", .broken),
        ("28P01", .broken), ("2D000", .broken), ("38000", .broken), ("39004", .broken), ("3D000", .broken),
        ("42501", .broken), ("42601", .broken), ("42703", .broken), ("42883", .broken), ("44000", .broken),
        ("54001", .broken), ("55000", .broken), ("0LP01", .broken), ("01000", .broken), ("45000", .broken),
        ("ZZ999", .broken), ("00000", .broken),
    ])
    func whatFollowsFromAState(_ code: String, _ advice: Advice) throws {
        #expect(try #require(SQLState(code)).advice == advice)
    }

    @Test(
        arguments: [
            ("22P02", .values), ("23505", .values), ("P0001", .values), ("P0002", .values), ("3F000", .schema),
            ("42P01", .schema), ("42883", .schema), ("42501", .role), ("42601", nil), ("40001", nil), ("57014", nil),
            ("XX000", nil), ("99999", nil),
        ] as [(String, Fault?)])
    func whatAStateBlames(_ code: String, _ fault: Fault?) throws {
        #expect(try #require(SQLState(code)).fault == fault)
    }

    /// A failure that an operator must repair is logged as an error.
    @Test(arguments: [
        ("08006", true), ("57P01", true), ("57P02", true), ("57P03", true), ("53300", true), ("25006", true),
        ("40001", true), ("40P01", true), ("55P03", true), ("57014", true), ("XX000", true), ("57P04", false),
        ("28P01", false), ("3D000", false), ("42883", false), ("42501", false), ("22P02", false), ("23505", false),
        ("42601", false), ("ZZ000", false),
    ])
    func errorsThatPassAreKnown(_ code: String, _ isPassing: Bool) throws {
        #expect(PostgresError(.statement, "", sqlstate: try #require(SQLState(code))).isPassing == isPassing)
        #expect(PostgresError(.lost, "").isPassing && !PostgresError(.connectionString, "").isPassing)
    }

    /// The hub's own statement cannot run, because a right or a function is missing: nobody's data is at fault.
    @Test func whatIsBrokenIsInAFunction() throws {
        let connection = try BlockingConnection(Cluster.shared.get().database().hub)
        func advice(_ sql: String) -> Advice? {
            do {
                _ = try connection.query(sql)
                return nil
            } catch {
                return error.reason.advice
            }
        }
        #expect(advice("SELECT sync.apply(1)") == .failed)
        #expect(advice("SELECT sync.new_epoch()") == .failed)
        #expect(advice("SELECT sync.retain(0, 0)") == .broken)
        #expect(advice("DO $$ BEGIN PERFORM 1 / 0; END $$") == .broken)
    }

    @Test(arguments: ["", "2200", "220000", "22p02", "22 02", "2200é"])
    func whatIsNoStateIsRefused(_ code: String) {
        #expect(SQLState(code) == nil)
    }

    @Test func theUsersWordsWin() throws {
        let parameters = try ConnectionParameters(
            "postgres://me:p%40ss@db.example:5433/app?keepalives_idle=77&client_encoding=LATIN1",
            defaults: ConnectionParameters.keepalive + ConnectionParameters.primaryOnly)
        #expect(parameters.keywords.filter { $0.name == "keepalives_idle" } == [.init("keepalives_idle", "77")])
        #expect(parameters.keywords.filter { $0.name == "client_encoding" } == [.init("client_encoding", "UTF8")])
        #expect(parameters.keywords.contains(.init("target_session_attrs", "read-write")))
        #expect(parameters.keywords.contains(.init("tcp_user_timeout", "15000")))
        #expect(parameters.summary == "dbname=app host=db.example port=5433 user=me")
    }

    @Test(arguments: ["postgres://me:p%zz@db/app", "host=x secret", "host=x\0y"])
    func anUnreadableStringIsNotQuoted(_ string: String) {
        #expect {
            _ = try ConnectionParameters(string)
        } throws: { error in
            let message = (error as? PostgresError)?.description ?? "p%zz secret"
            return !message.contains("p%zz") && !message.contains("secret")
        }
    }

    /// An array comes back as it was sent, whatever it holds.
    @Test func arraysKeepTheirElements() throws {
        let database = try Cluster.shared.get().database()
        let connection = try database.owner()
        var random = SeededRandom()
        var elements = ["", "NULL", "null", "{}", "a,b", "\"", "\\", " x ", "é", "e\u{301}", "\u{1F48A}"]
        elements += (0..<300).map { _ in random.text(upTo: 20).filter { $0 != "\0" } }
        elements = elements.filter { !$0.utf8.contains(0) }
        var array = TextArray()
        for element in elements { array.append(element) }
        let rows = try connection.query("SELECT unnest($1::text[])", [array.closed()])
        #expect(rows.count == elements.count)
        for (row, element) in zip(rows, elements) {
            #expect(row[0].map { Array($0.utf8) } == Array(element.utf8), "CARILLON_SEED=\(random.seed)")
        }
        #expect(try connection.query("SELECT cardinality($1::text[])", [TextArray().closed()]) == [["0"]])
        var gaps = TextArray()
        gaps.appendNull()
        gaps.append("NULL")
        gaps.appendNull()
        #expect(try connection.query("SELECT unnest($1::text[])", [gaps.closed()]) == [[nil], ["NULL"], [nil]])
    }

    @Test func listsGiveTheirTextsBack() throws {
        let list = try #require(CStringList(["", nil, "é\u{1F48A}", "x"]))
        let texts = (0..<list.count).map { list.withBytes(of: $0) { $0.map { String(decoding: $0, as: UTF8.self) } } }
        #expect(texts == ["", nil, "é\u{1F48A}", "x"])
    }

    @Test func toolsSeeTheWholeError() throws {
        let database = try Cluster.shared.get().database()
        let connection = try database.owner()
        #expect {
            _ = try connection.query("SELECT $1::int", ["aspirin"])
        } throws: { error in
            let error = error as? StatementError
            return error?.sqlstate == "22P02" && error?.message.contains("aspirin") == true
                && error?.reason.description.contains("aspirin") == false
        }
        try connection.execute("CREATE TEMP TABLE t (x int); INSERT INTO t VALUES (1), (2)")
        #expect(try connection.query("SELECT x, NULL FROM t ORDER BY x") == [["1", nil], ["2", nil]])
        _ = try database.admin().query("SELECT pg_terminate_backend($1::int)", [String(connection.backendPID)])
        #expect {
            try connection.execute("SELECT 1")
        } throws: {
            ($0 as? StatementError)?.reason.kind == .lost
        }
    }
}
