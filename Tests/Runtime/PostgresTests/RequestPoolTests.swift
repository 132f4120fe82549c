import Bytes
import Clock
import Glibc
import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

/// The pool on a loop, against a real server: every request gets its answer or its end, and users are served in turn.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct RequestPoolTests {
    private static let echo = PreparedStatement("SELECT $1::text")
    private static let sleep = PreparedStatement("SELECT pg_sleep($1::float8)")

    @Test(arguments: [true, false]) func aUsersRequestsAreCarriedOutInTheirOrder(isSerial: Bool) throws {
        let world = try PoolWorld(connections: isSerial ? 3 : 1, isSerial: isSerial)
        try world.admin.execute(
            """
            CREATE TABLE done (serial bigint GENERATED ALWAYS AS IDENTITY, who text, n int);
            GRANT ALL ON done TO PUBLIC
            """)
        let insert = PreparedStatement("INSERT INTO done (who, n) VALUES ($1::text, $2::int)")
        let sent = try (1...200).map { try world.send("u\($0 % 5)", insert, "u\($0 % 5)", "\($0)") }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        for user in 0..<5 {
            let rows = try world.admin.query("SELECT n FROM done WHERE who = $1 ORDER BY serial", ["u\(user)"])
            #expect(rows.map { $0[0] } == (1...200).filter { $0 % 5 == user }.map { "\($0)" })
        }
        #expect(world.pool.isIdle && world.pool.count == 0)
    }

    /// A request that ends every connection ends by itself, and none of those beside it does.
    @Test func onePoisonedRequestSinksNoOther() throws {
        // The ninth request may still be unsent when the connection is lost. On a busy machine the outage is then long.
        let world = try PoolWorld(connections: 1, outages: .waitedOut, lossesMax: 2, isSerial: false)
        let poison = PreparedStatement("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(1)")
        let others = try (0..<8).map { number in
            if number == 3 { _ = try world.send("eve", poison) }
            return try world.send("u\(number)", Self.echo, "\(number)")
        }
        let bad = try #require(world.sent.first { $0.user == TextKey("eve") })
        try world.run { bad.ends == 1 && others.allSatisfy { $0.answers.count == 1 } }
        #expect(others.map(\.answers) == (0..<8).map { ["\($0)"] })
        #expect(others.allSatisfy { $0.losses == 0 })
        #expect(bad.answers.isEmpty && bad.losses == 3 && bad.mayBeDone)
    }

    /// The server has answered three requests and ended at the fourth before anything is read, and more is sent. libpq
    /// reads the answers when it cannot send, and drops them when it finds the connection lost.
    @Test func answersThatAreLostAreHeldAgainstNobody() throws {
        let world = try PoolWorld(connections: 1, outages: .waitedOut, lossesMax: 2, isSerial: false)
        let poison = PreparedStatement("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(1)")
        let first = try world.send("ann", PreparedStatement("SELECT pg_backend_pid()"))
        try world.run { first.answers.count == 1 }
        let pid = try #require(first.answers.first.flatMap { Int32($0) })
        let before = try (0..<3).map { try world.send("u\($0)", Self.echo, "\($0)") }
        let bad = try world.send("eve", poison)
        world.pool.pump()
        // The process is gone, and so its socket is closed.
        let end = Instant.read().advanced(by: .seconds(60))
        while kill(pid, 0) == 0 || errno != ESRCH { try #require(Instant.read() < end) }
        let after = try (3..<6).map { number in
            let asked = try world.send("u\(number)", Self.echo, "\(number)")
            world.pool.pump()
            return asked
        }
        #expect((before + after).allSatisfy { $0.answers.isEmpty })
        try world.run { bad.ends == 1 && (before + after).allSatisfy { $0.answers.count == 1 } }
        #expect((before + after).map(\.answers) == (0..<6).map { ["\($0)"] })
        #expect((before + after).allSatisfy { $0.losses == 0 })
        #expect(bad.answers.isEmpty && bad.losses == 3)
    }

    /// A failure among others in the pipeline, one of them at the commit, after its rows.
    @Test func failuresAreTheirOwn() throws {
        let world = try PoolWorld(connections: 1, isSerial: false)
        try world.admin.execute(
            """
            CREATE TABLE t (n int PRIMARY KEY, other int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
            GRANT ALL ON t TO PUBLIC
            """)
        let insert = PreparedStatement("INSERT INTO t VALUES ($1::int, $2::int) RETURNING n")
        let sent = try [["1", nil], ["2", "9"], ["x", nil], ["3", "1"]].map {
            try world.send("u", insert, $0[0], $0[1])
        }
        try world.run { sent.allSatisfy { $0.answers.count == 1 } }
        #expect(sent.map(\.answers) == [["1"], ["23503"], ["22P02"], ["3"]])
        #expect(try world.admin.query("SELECT n FROM t ORDER BY n") == [["1"], ["3"]])
    }

    /// It is told its end at its deadline; its user's later requests are sent only when it has ended.
    @Test func aDeadlineUnderWayHoldsTheOrder() throws {
        let world = try PoolWorld(connections: 3)
        let slow = try world.send("ann", Self.sleep, "1.5", deadline: .milliseconds(300))
        let next = try world.send("ann", Self.echo, "next")
        let other = try world.send("bob", Self.echo, "other")
        try world.run { slow.ends == 1 }
        #expect(slow.answers.isEmpty && slow.mayBeDone && next.answers.isEmpty && other.answers == ["other"])
        try world.run { !next.answers.isEmpty }
        #expect(slow.answers.count == 1 && slow.ends == 1)
    }

    @Test func whatWaitsExpires() throws {
        let world = try PoolWorld(connections: 1, depth: 1)
        let slow = try world.send("ann", Self.sleep, "1")
        let late = try world.send("bob", Self.echo, "late", deadline: .milliseconds(200))
        try world.run { late.ends == 1 }
        #expect(slow.answers.isEmpty && !late.mayBeDone)
        try world.run { slow.answers.count == 1 }
        #expect(late.answers.isEmpty && world.pool.isIdle)
    }

    /// The first lock timeout ends the user's queued requests and refuses new ones for a while; other users go on.
    @Test func aHeldUserHoldsUpNobody() throws {
        let world = try PoolWorld(connections: 2)
        let first = try world.send("ann", Self.echo, "locked") { _ in .hold(.locked) }
        let rest = try (0..<3).map { try world.send("ann", Self.echo, "\($0)") }
        let other = try world.send("bob", Self.echo, "other")
        try world.run { rest.allSatisfy { $0.ends == 1 } && other.answers.count == 1 }
        #expect(first.ends == 1 && rest.allSatisfy { $0.answers.isEmpty })
        let early = try world.send("ann", Self.echo, "early")
        #expect(early.ends == 1)
        // One of ann's requests is decided, and ann is no suspect any more.
        var later = try world.send("ann", Self.echo, "later") { _ in .decided }
        try world.run {
            if later.ends == 1, let again = try? world.send("ann", Self.echo, "later", follows: { _ in .decided }) {
                later = again
            }
            return later.answers.count == 1
        }
        let last = try (0..<3).map { try world.send("ann", Self.echo, "\($0)") }
        try world.run { last.allSatisfy { $0.answers.count == 1 } }
        #expect(world.pool.isIdle)
    }

    @Test func stepsAreFollowed() throws {
        let world = try PoolWorld(connections: 1, depth: 1)
        var order: [String] = []
        var isAgain = true
        for name in ["a", "b", "c"] {
            _ = try world.send("ann", Self.echo, name) { _ in
                order.append(name)
                defer { isAgain = false }
                return name == "a" && isAgain ? .again : .done
            }
        }
        _ = try world.send("bob", Self.echo, "x") { _ in
            order.append("x")
            return order.filter { $0 == "x" }.count < 3 ? .later : .done
        }
        try world.run { order.count == 7 }
        #expect(order.prefix(3) == ["a", "a", "x"] && order.filter { $0 != "x" } == ["a", "a", "b", "c"])
    }

    /// A connection on which nothing can be written is dropped when the requests in flight have been answered.
    @Test func aReadOnlyConnectionIsLeft() throws {
        let world = try PoolWorld(connections: 1)
        try world.admin.execute(
            """
            CREATE FUNCTION standby() RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END $$
            """)
        let pid = PreparedStatement("SELECT pg_backend_pid()")
        let before = try world.send("ann", pid)
        let bad = try world.send("bob", PreparedStatement("SELECT standby()"))
        let after = try world.send("cat", pid)
        try world.run { after.answers.count == 1 && bad.answers.count == 1 }
        try world.run { !world.pool.isUp }
        try world.run { world.pool.isUp }
        let last = try world.send("ann", pid)
        try world.run { last.answers.count == 1 }
        #expect(bad.answers == ["25006"] && before.answers == after.answers && last.answers != before.answers)
    }

    // MARK: Shares

    /// 900 connections of one user send 100 requests each; another user's request waits for hardly any of them.
    @Test func aFloodOfOneUserCostsAnotherLittle() throws {
        let world = try PoolWorld(connections: 1, depth: 16, isSerial: false)
        let warm = try world.send("warm", Self.echo, "")
        try world.run { warm.answers.count == 1 }
        var waits: [Duration] = []
        for round in 0..<9 {
            let flood = try (0..<10_000).map { try world.send("flood", Self.echo, "\($0)") }
            #expect(world.pool.waiting <= 2 * FloodLimits.ofUser)
            let start = Instant.read()
            let other = try world.send("ann\(round)", Self.echo, "x")
            try world.run { other.answers.count == 1 }
            waits.append(Instant.read().duration(since: start))
            #expect(flood.allSatisfy { $0.ends + $0.answers.count <= 1 })
        }
        #expect(waits.sorted()[4] <= .milliseconds(100), "\(waits)")
        try world.run { world.pool.isIdle }
        #expect(world.sent.allSatisfy { $0.ends + $0.answers.count == 1 })
    }

    /// The first kind goes before the next; after `weight` requests one of the next kind has its turn, so it does not
    /// starve.
    /// Crowded is a pool only while each connection has much to do and more waits: then none runs dry while its owner rests.
    @Test func aPoolIsCrowdedWhereAllConnectionsAreBusy() throws {
        for (depth, isEver) in [(8, true), (5, false)] {
            let world = try PoolWorld(connections: 2, depth: depth)
            #expect(!world.pool.isCrowded)
            let sent = try (0..<3 * depth).map { try world.send("u\($0)", Self.sleep, "0.02") }
            var wasCrowded = false
            try world.run {
                let isCrowded = world.pool.isCrowded
                if isCrowded { #expect(world.pool.count - world.pool.waiting >= 12 && world.pool.waiting > 0) }
                wasCrowded = wasCrowded || isCrowded
                return sent.allSatisfy { $0.answers.count == 1 }
            }
            #expect(wasCrowded == isEver && !world.pool.isCrowded)
        }
    }

    @Test func kindsGoInTheirOrder() throws {
        let world = try PoolWorld(connections: 1, depth: 1, isSerial: false)
        var order: [Int] = []
        let first = try world.send("first", Self.sleep, "0.1")
        world.tick()
        for number in 0..<3 {
            try world.send("ann", kind: 1, Self.echo, "") { _ in
                order.append(number)
                return .done
            }
        }
        for number in 10..<40 {
            try world.send("u\(number)", Self.echo, "") { _ in
                order.append(number)
                return .done
            }
        }
        try world.run { order.count == 33 && first.answers.count == 1 }
        #expect(order.enumerated().filter { $0.element < 3 }.map(\.element) == [0, 1, 2])
        #expect(
            order.enumerated().filter { $0.element < 3 }.map(\.offset).allSatisfy { $0 % 8 >= 6 || $0 == 32 },
            "\(order)")
    }

    @Test func whatNobodyWantsIsNotSent() throws {
        let world = try PoolWorld(connections: 1, depth: 1)
        let first = try world.send("first", Self.sleep, "0.1")
        world.tick()
        let sent = try (0..<10).map { try world.send("u\($0 % 2)", Self.echo, "\($0)") }
        for asked in sent.prefix(8) { asked.isWanted = false }
        try world.run { first.answers.count == 1 && sent.suffix(2).allSatisfy { $0.answers.count == 1 } }
        #expect(sent.prefix(8).allSatisfy { $0.answers.isEmpty && $0.ends == 0 } && world.pool.isIdle)
    }

    // MARK: Leases

    /// A leased connection is idle when it is given, and other requests go on beside it.
    @Test func aLeaseIsGivenWhenItIsIdle() throws {
        let world = try PoolWorld(connections: 2, leasesMax: 2)
        let before = try (0..<20).map { try world.send("u\($0)", Self.echo, "\($0)") }
        var (given, rows, losses): (Connection?, [String?], Int) = (nil, [], 0)
        let handlers = Lease.Handlers(given: { given = $0 }, lost: { losses += 1 })
        let lease = world.pool.lease(handlers)
        try world.run { given != nil }
        #expect(given?.isIdle == true)
        // One connection is left for requests, however many leases are asked for.
        var isGiven = false
        let second = world.pool.lease(Lease.Handlers(given: { _ in isGiven = true }, lost: {}))
        for sql in ["BEGIN", "DECLARE c CURSOR FOR SELECT generate_series(1, 9)", "FETCH 3 FROM c", "FETCH 3 FROM c"] {
            given?.query(sql) { answer in rows.append((try? answer.get())?.string(0, 0)) }
        }
        let beside = try (0..<50).map { try world.send("v\($0)", Self.echo, "\($0)") }
        try world.run { rows.count == 4 && (before + beside).allSatisfy { $0.answers.count == 1 } }
        #expect(rows == [nil, nil, "1", "4"] && !isGiven)
        lease.end()
        lease.end()
        try world.run { isGiven }
        second.end()
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        try world.run { (try? world.admin.query(open)) == [["0"]] }
        #expect(losses == 0)
        let after = try (0..<20).map { try world.send("u\($0)", Self.sleep, "0.02") }
        try world.run { after.allSatisfy { $0.answers.count == 1 } }
    }

    /// Reads are sent behind a slow one while the other connection is leased. When that is given back, they are answered on
    /// it, once.
    @Test func aRequestBehindASlowReadIsTakenBack() throws {
        let world = try PoolWorld(connections: 2, leasesMax: 1, isOfReads: true)
        let holder = try world.admin.query("SELECT pg_advisory_lock(77)")
        var isGiven = false
        let lease = world.pool.lease(Lease.Handlers(given: { _ in isGiven = true }, lost: {}))
        try world.run { isGiven }
        let slow = try world.send("slow", PreparedStatement("SELECT pg_advisory_lock_shared(77)::text || 'slow'"))
        let others = try (0..<5).map { try world.send("u\($0 % 4)", Self.echo, "\($0)") }
        world.tick()
        lease.end()
        try world.run { others.allSatisfy { $0.answers.count == 1 } }
        #expect(slow.answers.isEmpty && others.map(\.answers) == (0..<5).map { ["\($0)"] })
        _ = try world.admin.query("SELECT pg_advisory_unlock(77)")
        try world.run { world.pool.count == 0 }
        #expect(slow.answers == ["slow"] && others.allSatisfy { $0.answers.count == 1 && $0.losses == 0 })
        #expect(world.pool.isIdle && holder.count == 1)
    }

    @Test func aLostLeaseIsTold() throws {
        let world = try PoolWorld(connections: 2, leasesMax: 1)
        var (given, losses): (Connection?, Int) = (nil, 0)
        let lease = world.pool.lease(Lease.Handlers(given: { given = $0 }, lost: { losses += 1 }))
        try world.run { given != nil }
        _ = try world.admin.query("SELECT pg_terminate_backend($1::int)", ["\(given?.backendPID ?? 0)"])
        try world.run { losses == 1 }
        lease.end()
        try world.run { world.pool.up == 2 }
        var isGiven = false
        let next = world.pool.lease(Lease.Handlers(given: { _ in isGiven = true }, lost: {}))
        try world.run { isGiven }
        next.drop(PostgresError(.lost, "no use"))
        #expect(losses == 1)
        try world.run { world.pool.up == 2 }
        // The lease ends before it is given.
        world.pool.lease(Lease.Handlers(given: { _ in Issue.record("given") }, lost: {})).end()
        let after = try (0..<20).map { try world.send("u\($0)", Self.echo, "") }
        try world.run { after.allSatisfy { $0.answers.count == 1 } }
    }

    // MARK: Outages and the end

    @Test func withoutAServerRequestsEnd() throws {
        let world = try PoolWorld(connections: 2, string: "host=/nowhere dbname=x user=x")
        let first = try world.send("ann", Self.echo, "")
        try world.run { first.ends == 1 }
        #expect(world.pool.isAway && !world.pool.isUp)
        let start = Instant.read()
        #expect(try world.send("ann", Self.echo, "").ends == 1)
        #expect(Instant.read().duration(since: start) < .seconds(1))
        let patient = try PoolWorld(connections: 2, outages: .waitedOut, string: "host=/nowhere dbname=x user=x")
        let late = try patient.send("ann", Self.echo, "", deadline: .seconds(2))
        try patient.run { patient.pool.isAway }
        #expect(late.ends == 0)
        try patient.run { late.ends == 1 }
    }

    @Test func theEndIsTold() throws {
        let world = try PoolWorld(connections: 1, depth: 1)
        let slow = try world.send("ann", Self.sleep, "0.3")
        let waiting = try world.send("bob", Self.echo, "")
        world.tick()
        world.pool.stop()
        #expect(waiting.ends == 1 && slow.ends == 0)
        try world.run { slow.answers.count == 1 }
        let hanging = try world.send("ann", Self.sleep, "30")
        world.tick()
        world.pool.abandon()
        #expect(hanging.ends == 1 && hanging.answers.isEmpty)
    }
}
