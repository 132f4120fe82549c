import Clock
import Dispatch
import Postgres
import Store
import Synchronization
import TestDatabase
import TestSupport
import Testing

/// Exports, seen by a reader in this process: each `pull` brings a piece, or `broken`.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ExportTests {
    private static let lines = ExportFunction("public.lines", ["bigint"], refusals: [])
    private static let reading = """
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'FETCH %' AND pid <> pg_backend_pid()
        """

    @Test func everyPullIsAnswered() throws {
        let database = try Cluster.shared.get().database()
        try database.owner().execute(
            """
            CREATE FUNCTION public.lines(who text, last bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
            DECLARE
                export refcursor := 'export';
            BEGIN
                OPEN export NO SCROLL FOR SELECT n || E'\\n' FROM (SELECT generate_series(1, last) AS n) AS s;
                RETURN 'text/plain';
            END $$
            """)
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.routes.exports = 1
        let store = try Store.start(configuration, logger: .quiet) {}
        defer { store.stop() }
        let reader = Reader()
        let first = try reader.begin(store, Self.lines, last: "1000000000")
        // Three at once: a reader may pull before the previous piece has come.
        for _ in 0..<3 { first.pull() }
        let beginning = try (0..<3).map { _ in try reader.piece() }.joined()
        #expect(beginning.hasPrefix("1\n2\n3\n"))
        #expect(beginning.split(separator: "\n").enumerated().allSatisfy { $1 == "\($0 + 1)" })
        #expect(try database.admin().query(Self.reading) == [["1"]])
        #expect(try reader.piece() == "broken")
        // The reader may pull before it hears of the end.
        first.pull()
        #expect(try reader.piece() == "broken")
        // The connection is free again for the same user, and after an end too.
        for last in [5, 1] {
            let next = try reader.begin(store, Self.lines, last: "\(last)")
            next.pull()
            #expect(try reader.piece() == (1...last).map { "\($0)\n" }.joined())
            next.pull()
            #expect(try reader.piece() == "end")
            next.pull()
            #expect(try reader.piece() == "broken")
        }
    }
}

/// An export's pieces, in order.
private final class Reader: Sendable {
    private let arrived = DispatchSemaphore(value: 0)
    private let answers = Mutex<[ExportAnswer]>([])
    private let pieces = Mutex<[String]>([])

    /// Asks until the export begins: the store may not be up yet, or the connection not given back.
    func begin(_ store: Store, _ function: ExportFunction, last: String) throws -> Export {
        let end = Instant.read().advanced(by: .seconds(60))
        while Instant.read() < end {
            store.export(
                ExportRequest(user: "u", function, [last]) { [self] answer in
                    answers.withLock { $0.append(answer) }
                    arrived.signal()
                } piece: { [self] piece in
                    let text =
                        switch piece {
                        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
                        case .end: "end"
                        case .broken: "broken"
                        }
                    pieces.withLock { $0.append(text) }
                    arrived.signal()
                })
            try awaitNext()
            if case .begun(let type, let export) = answers.withLock({ $0.removeFirst() }) {
                #expect(type == "text/plain")
                return export
            }
        }
        throw PostgresError(.timeout, "no export begins")
    }

    /// The next piece.
    func piece() throws -> String {
        try awaitNext()
        return try #require(pieces.withLock { $0.isEmpty ? nil : $0.removeFirst() })
    }

    private func awaitNext() throws { try #require(arrived.wait(timeout: .now() + 60) == .success, "nothing in 60 s") }
}
