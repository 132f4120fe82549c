import Bytes
import Clock
import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

/// Requests of one user that wait become one statement; whatever goes wrong, each ends as it would alone.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct RequestBatchTests {
    /// Writes a line for each number, in one transaction: until the first number above 999, and at most `most` of them.
    private static let functions = """
        CREATE TABLE done (serial bigint GENERATED ALWAYS AS IDENTITY, who text, n int, pid int DEFAULT pg_backend_pid());
        CREATE TABLE never (n int PRIMARY KEY, other int REFERENCES never DEFERRABLE INITIALLY DEFERRED);
        CREATE FUNCTION write_all(who text, numbers int[], most int) RETURNS SETOF int LANGUAGE plpgsql AS $$
        BEGIN
            FOR i IN 1 .. least(most, cardinality(numbers)) LOOP
                IF cardinality(numbers) > 1 THEN
                    IF numbers[i] BETWEEN 900 AND 909 THEN RAISE EXCEPTION 'bad'; END IF;
                    IF numbers[i] BETWEEN 910 AND 919 THEN INSERT INTO never VALUES (i, 1000); END IF;
                    IF numbers[i] BETWEEN 920 AND 929 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(1); END IF;
                    IF numbers[i] BETWEEN 930 AND 939 THEN PERFORM pg_advisory_xact_lock(numbers[i]); END IF;
                END IF;
                INSERT INTO done (who, n) VALUES (who, numbers[i]);
                RETURN NEXT numbers[i];
            END LOOP;
        END $$;
        GRANT ALL ON done, never TO PUBLIC
        """
    private static let write = PreparedStatement("SELECT write_all($1::text, ARRAY[$2::int], 1)")

    /// A world whose batches call the function; `most` parts of each are done.
    private func world(connections: Int = 1, countMax: Int = 8, most: Int = 100) throws -> PoolWorld {
        let batching = Batching(countMax: countMax, bytesMax: 1_000) { WriteBatch($0, most: most) }
        let world = try PoolWorld(
            connections: connections, outages: .waitedOut, batching: batching)
        try world.admin.execute(Self.functions)
        return world
    }

    @discardableResult private func send(
        _ world: PoolWorld, _ user: String, _ number: Int, deadline: Duration? = nil, isShared: Bool = true
    ) throws -> Asked {
        let asked = Asked(
            kind: 0, user, Self.write, try #require(CStringList([user, "\(number)"])),
            deadline: deadline.map { Instant.read().advanced(by: $0) } ?? Instant(nanoseconds: .max),
            follows: { _ in .decided })
        asked.isShared = isShared
        world.pool.append(asked)
        return asked
    }

    /// The numbers of each transaction, in their order.
    private func transactions(_ world: PoolWorld, _ user: String) throws -> [[Int]] {
        let rows = try world.admin.query(
            "SELECT string_agg(n::text, ',' ORDER BY serial) FROM done WHERE who = $1 GROUP BY xmin::text "
                + "ORDER BY min(serial)",
            [user])
        return rows.map { ($0[0] ?? "").split(separator: ",").compactMap { Int($0) } }
    }

    @Test func theWaitingAreOneTransaction() throws {
        let world = try world()
        let sent = try (1...20).map { try send(world, "ann", $0) }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(sent.map(\.answers) == (1...20).map { ["\($0)"] })
        #expect(try transactions(world, "ann") == [Array(1...8), Array(9...16), Array(17...20)])
        // One alone is not made to wait for others.
        let single = try send(world, "ann", 21)
        try world.run { single.answers.count == 1 }
        #expect(world.pool.isIdle && sent.allSatisfy { $0.ends == 0 && !$0.mayBeDone })
    }

    @Test func aBatchIsBoundedInBytes() throws {
        let world = try world()
        let user = String(repeating: "u", count: 300)
        let sent = try (1...6).map { try send(world, user, $0) }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, user) == [[1, 2, 3], [4, 5, 6]])
    }

    @Test func whatMayNotShareIsAlone() throws {
        let world = try world()
        let sent = try (1...6).map { try send(world, "ann", $0, isShared: $0 != 3) }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, "ann") == [[1, 2], [3], [4, 5, 6]])
    }

    /// The statement carries out the first ones only: the others come next, in their order.
    @Test func theRestIsSentAgain() throws {
        let world = try world(most: 3)
        let sent = try (1...8).map { try send(world, "ann", $0) }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, "ann") == [[1, 2, 3], [4, 5, 6], [7, 8]])
    }

    /// One of them fails, or their commit: all are undone, and each is carried out by itself.
    @Test(arguments: [900, 910]) func aFailureOfOneIsNoFailureOfAll(bad: Int) throws {
        let world = try world()
        let sent = try [1, 2, bad, 4].map { try send(world, "ann", $0) }
        let later = try (5...12).map { try send(world, "ann", $0) }
        try world.run { (sent + later).allSatisfy { $0.answers.count == 1 } }
        #expect(sent.map(\.answers) == [["1"], ["2"], ["\(bad)"], ["4"]])
        #expect(try transactions(world, "ann").flatMap { $0 } == [1, 2, bad, 4] + Array(5...12))
        #expect(sent.allSatisfy { $0.ends == 0 && $0.losses == 0 })
    }

    /// A batch is never held against its parts: none of them was alone on the connection that was lost.
    @Test func aLostBatchIsSentOneByOne() throws {
        let world = try world()
        let sent = try [1, 2, 920, 4].map { try send(world, "ann", $0) }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, "ann") == [[1], [2], [920], [4]])
        #expect(sent.allSatisfy { $0.mayBeDone && $0.losses == 0 && $0.ends == 0 })
        let next = try (5...7).map { try send(world, "ann", $0) }
        try world.run { next.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, "ann").last == [5, 6, 7])
    }

    /// A part's deadline is its own; the next request waits for the end of the whole.
    @Test func aDeadlineIsOfOnePart() throws {
        let world = try world(connections: 2)
        _ = try world.admin.query("SELECT pg_advisory_lock(930)")
        let first = try send(world, "ann", 930)
        let second = try send(world, "ann", 2, deadline: .milliseconds(300))
        let third = try send(world, "ann", 3)
        world.tick()
        let next = try send(world, "ann", 4)
        try world.run { second.ends == 1 }
        #expect(second.mayBeDone && first.ends == 0 && third.ends == 0 && next.answers.isEmpty)
        _ = try world.admin.query("SELECT pg_advisory_unlock(930)")
        try world.run { next.answers.count == 1 }
        #expect(try transactions(world, "ann") == [[930, 2, 3], [4]])
        #expect(first.answers == ["930"] && third.answers == ["3"] && world.pool.isIdle)
    }

    // MARK: Others

    /// Users that wait make batches small: all their turns together take as long as one batch alone.
    @Test func aCrowdSharesOneBatch() throws {
        let world = try world()
        let warm = try send(world, "warm", 0)
        try world.run { warm.answers.count == 1 }
        var sent: [Asked] = []
        for user in 0..<4 { for number in 1...4 { sent.append(try send(world, "u\(user)", number)) } }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, "u0").first == [1, 2])
        let many = try (0..<9).flatMap { user in try (1...2).map { try send(world, "v\(user)", $0) } }
        try world.run { many.allSatisfy { $0.answers.count == 1 } }
        #expect(try transactions(world, "v0").first == [1])
    }

    /// Batches of several users never have all connections, and nothing waits behind one on its connection.
    @Test func oneConnectionStaysFree() throws {
        let world = try world(connections: 3, countMax: 100)
        _ = try world.admin.query("SELECT pg_advisory_lock(n) FROM generate_series(930, 934) AS n")
        for user in 0..<5 {
            // Alone in the queue, each would be a batch.
            try send(world, "u\(user)", 930 + user)
            try send(world, "u\(user)", 1)
            world.tick()
        }
        let other = try send(world, "other", 1)
        try world.run { other.answers.count == 1 }
        let waiting = """
            SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """
        // Two batches have begun: the others' servers may come to their locks later than `other` is answered.
        try world.run { (try? world.admin.query(waiting)) == [["2"]] }
        _ = try world.admin.query("SELECT pg_advisory_unlock_all()")
        try world.run { world.pool.isIdle }
    }

    // MARK: The end

    @Test func theEndIsToldOnce() throws {
        let world = try world(most: 2)
        _ = try world.admin.query("SELECT pg_advisory_lock(930)")
        let sent = try [930, 2, 3, 4].map { try send(world, "ann", $0) }
        world.tick()
        let waiting = try send(world, "ann", 5)
        world.pool.stop()
        #expect(waiting.ends == 1 && sent.allSatisfy { $0.ends == 0 })
        _ = try world.admin.query("SELECT pg_advisory_unlock(930)")
        try world.run { world.pool.isIdle }
        // What was done got its answer, and what was not begun its end.
        #expect(sent.map { $0.answers.count } == [1, 1, 0, 0] && sent.map { $0.ends } == [0, 0, 1, 1])
    }

    @Test func whatIsAbandonedEnds() throws {
        let world = try world()
        _ = try world.admin.query("SELECT pg_advisory_lock(930)")
        let sent = try [930, 2, 3].map { try send(world, "ann", $0) }
        world.tick()
        world.pool.abandon()
        #expect(sent.allSatisfy { $0.ends == 1 && $0.answers.isEmpty })
    }
}

/// A batch of the tests' function: tells each part its number.
private final class WriteBatch: RequestBatch {
    private static let writeAll = PreparedStatement("SELECT write_all($1::text, $2::int[], $3::int)")

    init(_ parts: [Request], most: Int) {
        var numbers = TextArray()
        var user: String?
        for part in parts {
            part.parameters.withBytes(of: 0) { user = $0.map { String(decoding: $0, as: UTF8.self) } }
            part.parameters.withBytes(of: 1) { if let number = $0 { numbers.append(number) } }
        }
        super.init(
            of: parts,
            Terms(
                kind: parts[0].kind, of: parts[0].user, Self.writeAll,
                CStringList([user, numbers.closed(), "\(most)"]) ?? CStringList()))
    }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep {
        guard case .success(let rows) = answer else { return .rest(after: 0) }
        for (row, part) in parts.prefix(rows.count).enumerated() {
            (part as? Asked)?.isTold(rows.string(row, 0) ?? "NULL")
        }
        return rows.count == parts.count ? .decided : .rest(after: rows.count)
    }
}
