import Feed
import Foundation
import Postgres
import Reactor
import Sync
import TestDatabase
import TestSupport
import Testing

/// Reads on the catch-up connection, and what the checks find while no connection is lost.
extension FeedTests {
    /// Inserts `count` items of `user` in one commit.
    private func insert(_ count: Int, _ user: String) throws {
        _ = try writer.query(
            "INSERT INTO app.item SELECT $1 || g, $1, 'x' FROM generate_series(1, $2::int) AS g", [user, String(count)])
    }

    private func log(_ user: String, _ offsets: ClosedRange<Int>) throws -> [[String?]] {
        try writer.query(
            """
            SELECT o, name, data::text FROM sync.event
            WHERE user_id = $1 AND o BETWEEN $2::bigint AND $3::bigint ORDER BY o
            """, [user, String(offsets.lowerBound), String(offsets.upperBound)])
    }

    private func rows(_ events: [StreamEvent]?) -> [[String?]]? {
        events?.map { [String($0.offset), $0.name, $0.data.string] }
    }

    @Test func pagesOfTheLogAreRead() throws {
        let recorder = try record()
        try insert(600, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        #expect(try rows(recorder.events(recorder.read(ann, after: 10, upTo: 600))) == log("ann", 11...266))
        #expect(try rows(recorder.events(recorder.read(ann, after: 590, upTo: 595))) == log("ann", 591...595))
        #expect(try recorder.events(recorder.read(ann, after: 599, upTo: 600))?.count == 1)
        // A page also ends by its bytes.
        try writer.execute("UPDATE app.item SET label = repeat(md5(random()::text), 200) WHERE user_id = 'ann'")
        try recorder.waitForLog(ann)
        let heavy = try #require(try recorder.events(recorder.read(ann, after: 600, upTo: 1_200)))
        #expect(heavy.reduce(0) { $0 + $1.data.count } <= FeedLimits.readBytes + 16_384)
        #expect(heavy.count < FeedLimits.readRows)
    }

    @Test func eventsThatTheLogHasLostAreExpired() throws {
        let recorder = try record()
        try insert(10, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try writer.execute("DELETE FROM sync.event WHERE o <= 4")
        #expect(try recorder.failure(recorder.read(ann, after: 3, upTo: 10)) == .expired)
        #expect(try recorder.events(recorder.read(ann, after: 4, upTo: 10))?.count == 6)
        try writer.execute("DELETE FROM sync.event")
        #expect(try recorder.failure(recorder.read(ann, after: 5, upTo: 10)) == .expired)
    }

    /// The next position check is far away: the read itself finds the new epoch and causes the reset.
    @Test func aLogOfAnotherEpochIsNotRead() throws {
        let recorder = try record()
        try insert(10, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        _ = try writer.query("SELECT sync.new_epoch()")
        #expect(try recorder.failure(recorder.read(ann, after: 3, upTo: 10)) == .otherEpoch)
        try recorder.wait("a reset") { recorder.unlockedStream(ann)?.resets == 1 }
        #expect(!recorder.seenStatuses.contains(.away))
    }

    @Test func aNewEpochIsSeenWithoutAReconnect() throws {
        let recorder = try record { $0.positionCheckInterval = .milliseconds(50) }
        try insert(3, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        _ = try writer.query("SELECT sync.new_epoch()")
        try recorder.wait("a reset") { recorder.unlockedStream(ann)?.resets == 1 }
        try insert("more", "ann")
        try recorder.waitForLog(ann)
        #expect(!recorder.seenStatuses.contains(.away))
        #expect(recorder.gapCount == 0)
    }

    /// The tail never reads a row that looks old to it.
    @Test func aRowThatTheTailMissesIsHealedAndCounted() throws {
        let recorder = try record { $0.positionCheckInterval = .milliseconds(50) }
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(ann, bob)
        try writer.execute("BEGIN")
        try insert("1", "ann")
        try insert("2", "bob")
        try writer.execute(
            "SET CONSTRAINTS ALL IMMEDIATE; UPDATE sync.event SET xid = '3' WHERE user_id = 'ann'; COMMIT")
        try recorder.waitForLog(ann, bob)
        #expect(recorder.gapCount == 1)
        #expect(recorder.stream(ann)?.resets == 0)
    }

    @Test func checksAmidCommitsRaiseNoAlarm() throws {
        let recorder = try record { $0.positionCheckInterval = .milliseconds(1) }
        let streams = ["ann", "bob", "carol"].map { recorder.watch($0) }
        for stream in streams { try recorder.waitForPosition(stream) }
        for number in 0..<300 { try insert("\(number)", ["ann", "bob", "carol"][number % 3]) }
        for stream in streams { try recorder.waitForLog(stream) }
        #expect(recorder.gapCount == 0)
    }

    /// The read wants no page, only whether the database is that far: a lagging shard asks this before it says `ahead`.
    @Test func whetherTheLogHasGotThere() throws {
        let recorder = try record()
        try insert(3, "ann")
        let ann = recorder.watch("ann")
        let none = recorder.watch("none")
        try recorder.waitForPosition(ann)
        try recorder.waitForPosition(none)
        #expect(try recorder.failure(recorder.read(ann, after: 4, upTo: 4)) == .ahead)
        #expect(try recorder.events(recorder.read(ann, after: 3, upTo: 3)) == [])
        #expect(try recorder.events(recorder.read(ann, after: 2, upTo: 2)) == [])
        #expect(try recorder.failure(recorder.read(none, after: 1, upTo: 1)) == .ahead)
        #expect(try recorder.failure(recorder.read(ann, after: 1 << 53, upTo: 1 << 53)) == .ahead)
    }

    @Test func losingTheCatchUpConnectionLosesNoRead() throws {
        let recorder = try record()
        try insert(400, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        var reads: [StreamRead] = []
        for round in 0..<4 {
            for number in 0..<50 { reads.append(recorder.read(ann, after: Int64(round * 50 + number), upTo: 400)) }
            try terminate("sync.read_log")
        }
        for read in reads { #expect(try recorder.events(read)?.first?.offset == read.after + 1) }
    }

    @Test func tooManyReadsAreRefused() throws {
        try writer.execute("ALTER FUNCTION sync.hub_hello() RENAME TO hub_hello_later")
        let recorder = try record { $0.readsMax = 5 }
        let ann = recorder.watch("ann")
        let reads = (0..<6).map { recorder.read(ann, after: $0, upTo: 10) }
        #expect(try recorder.failure(reads[5]) == .busy)
    }

    /// 15,000 devices are back at once, each has missed something on two channels, and the database is late.
    @Test func theReadsOfAStormWait() throws {
        try writer.execute("ALTER FUNCTION sync.hub_hello() RENAME TO hub_hello_later")
        let recorder = try record()
        let streams = (0..<15_000).flatMap { user in
            ["items", "others"].map { recorder.watch("user \(user)", topic: $0) }
        }
        let reads = streams.map { recorder.read($0, after: 0, upTo: 1) }
        // Once one user's share is full, the feed has taken all that was asked before.
        let flood = (0...FeedLimits.readsPerUserMax).map { recorder.read(streams[0], after: 1, upTo: Int64(2 + $0)) }
        #expect(try recorder.failure(flood[FeedLimits.readsPerUserMax]) == .busy)
        #expect(reads.count { recorder.isAnswered($0) } == 0)
    }

    /// One user's connections ask for more than the queue holds; another user's page is still read.
    @Test func aFloodOfOneUserRefusesNobodyElse() throws {
        let recorder = try record()
        for user in ["flood", "ann"] { try insert(3, user) }
        let flood = recorder.watch("flood")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(flood, ann)
        let reads = (0..<FeedLimits.readsMax + 500).map {
            recorder.read(flood, after: Int64($0), upTo: Int64($0))
        }
        #expect(try recorder.events(recorder.read(ann, after: 0, upTo: 3))?.count == 3)
        // Every read of the flood is answered, some with `busy`.
        var failures: Set<StreamReadFailure> = []
        for read in reads {
            if let failure = try recorder.failure(read) { failures.insert(failure) }
        }
        #expect(failures == [.ahead, .busy])
    }

    /// 900 connections of one user request 100 streams each as fast as possible: another user's resume is hardly slower.
    @Test func aFloodOfOneUserDelaysNobodysResume() throws {
        let recorder = try record()
        try insert(3, "ann")
        try insert(3, "flood")
        let ann = recorder.watch("ann")
        let streams = [recorder.watch("flood")] + (1..<100).map { recorder.watch("flood", topic: "topic \($0)") }
        try recorder.waitForPosition(ann)
        for stream in streams { try recorder.waitForPosition(stream) }
        // Each offset is requested once, so that answers can be told apart by it.
        func wait(_ number: Int) throws -> Duration {
            let start = ContinuousClock.now
            #expect(try recorder.events(recorder.read(ann, after: 0, upTo: Int64(3 + number)))?.count == 3)
            return ContinuousClock.now - start
        }
        let alone = try (0..<20).map(wait).sorted()[10]
        let isOver = Locked(false)
        let flooded = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            for connection in 0..<900 as Range<Int64> where !isOver.withLock({ $0 }) {
                // Pages and confirmations.
                for stream in streams {
                    _ = recorder.read(stream, after: connection, upTo: connection + connection % 2)
                }
                while recorder.unreadRequests > 500 { sched_yield() }
            }
            isOver.withLock { $0 = true }
            flooded.signal()
        }
        var waits: [Duration] = []
        while !isOver.withLock({ $0 }), waits.count < 100 { waits.append(try wait(20 + waits.count)) }
        isOver.withLock { $0 = true }
        flooded.wait()
        #expect(waits.count >= 5)
        // The mailbox takes its time on a busy machine; behind the flood the wait would be a hundred times as long.
        #expect(waits.sorted()[waits.count / 2] <= .milliseconds(100) + alone * 50, "\(alone) alone, \(waits)")
    }

    /// A living server fails each attempt: after three, the answer is `busy`.
    @Test func aReadThatFailsAgainAndAgainIsBusy() throws {
        let recorder = try record()
        try insert(3, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try recorder.waitForStatus(.live)
        try writer.execute("ALTER FUNCTION sync.read_log RENAME TO read_log_later")
        #expect(try recorder.failure(recorder.read(ann, after: 1, upTo: 3)) == .busy)
        try writer.execute("ALTER FUNCTION sync.read_log_later RENAME TO read_log")
        #expect(try recorder.events(recorder.read(ann, after: 2, upTo: 3))?.count == 1)
    }

    @Test func readsWaitForSlowReceivers() throws {
        let recorder = try record { $0.backlogMax = 10 }
        try insert(3, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        recorder.setBacklog(11)
        let read = recorder.read(ann, after: 0, upTo: 3)
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(bob)
        #expect(!recorder.isAnswered(read))
        recorder.setBacklog(10)
        #expect(try recorder.events(read)?.count == 3)
    }

    // MARK: Revocations

    private func moment(_ user: String) throws -> Int64? {
        try writer.query(
            "SELECT (extract(epoch FROM before) * 1000000)::bigint FROM sync.revocation WHERE user_id = $1", [user]
        ).first?[0].flatMap { Int64($0) }
    }

    /// Known revocations come on connect; new ones by a notification, or by the poll without one.
    @Test func revocationsArriveInTime() throws {
        _ = try writer.query("SELECT sync.revoke('early')")
        let recorder = try record { $0.pollInterval = .seconds(1) }
        try recorder.wait("what stands") { recorder.unlockedRevocations["early"] != nil }
        try recorder.waitForStatus(.live)
        _ = try writer.query("SELECT sync.revoke('é')")
        try recorder.wait("what is told") { recorder.unlockedRevocations["é"] != nil }
        try writer.execute("SET sync.notify = off")
        _ = try writer.query("SELECT sync.revoke('late')")
        let start = ContinuousClock.now
        try recorder.wait("what is not told") { recorder.unlockedRevocations["late"] != nil }
        #expect(ContinuousClock.now - start < .seconds(2))
        for user in ["early", "é", "late"] {
            let seen = try #require(try moment(user))
            try recorder.wait("the moment of \(user)") { recorder.unlockedRevocations[user] == seen }
        }
    }

    @Test func manyRevocationsComeInPages() throws {
        _ = try writer.query("SELECT count(sync.revoke('u' || g)) FROM generate_series(1, 2500) AS g")
        let recorder = try record()
        try recorder.wait("all") { recorder.unlockedRevocations.count == 2_500 }
        try writer.execute("BEGIN")
        _ = try writer.query("SELECT count(sync.revoke('v' || g)) FROM generate_series(1, 2500) AS g")
        try writer.execute("COMMIT")
        try recorder.wait("all that came later") { recorder.unlockedRevocations.count == 5_000 }
    }

    @Test func revocationsOutliveTheirConnection() throws {
        let recorder = try record()
        try recorder.waitForStatus(.live)
        for number in 0..<5 {
            try terminate("sync.revocations")
            _ = try writer.query("SELECT sync.revoke('u' || $1)", [String(number)])
        }
        try recorder.wait("all") { recorder.unlockedRevocations.count == 5 }
    }

    @Test func allRevocationsComeBeforeAnythingElse() throws {
        _ = try writer.query("SELECT count(sync.revoke('u' || g)) FROM generate_series(1, 2500) AS g")
        try insert(3, "ann")
        let recorder = try record()
        let ann = recorder.watch("ann")
        let read = recorder.post(
            StreamRead(stream: ann, watch: recorder.stream(ann)?.serial ?? 0, epoch: Epoch("none"), after: 0, upTo: 3))
        try recorder.waitForPosition(ann)
        try recorder.wait("all") { recorder.unlockedKnownWhenCurrent == 2_500 }
        #expect(try recorder.failure(read) == .otherEpoch)
        try recorder.waitForStatus(.live)
        try terminate("sync.")
        try insert("more", "ann")
        try recorder.waitForLog(ann)
    }

    // MARK: Without the catch-up connection

    /// Keeps new connections out, and ends the catch-up connections, one of which has read something.
    private func loseCatchUp(_ recorder: Recorder, _ stream: StreamID) throws {
        _ = try recorder.events(recorder.read(stream, after: 0, upTo: 1))
        _ = try database.admin().query("ALTER DATABASE \(database.name) CONNECTION LIMIT 0")
        try terminate("sync.read_log")
        // The other one has only been greeted.
        try terminate("SELECT in_recovery")
    }

    @Test func withoutItReadsEndAndRevocationsCome() throws {
        let recorder = try record { $0.readTimeout = .milliseconds(200) }
        try insert(3, "ann")
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try loseCatchUp(recorder, ann)
        #expect(try recorder.failure(recorder.read(ann, after: 1, upTo: 3)) == .busy)
        #expect(try recorder.failure(recorder.read(ann, after: 2, upTo: 3)) == .busy)
        _ = try writer.query("SELECT sync.revoke('bob')")
        try recorder.wait("a revocation") { recorder.unlockedRevocations["bob"] != nil }
        try insert("more", "ann")
        try recorder.waitForLog(ann)
        #expect(!recorder.seenStatuses.contains(.away))
        _ = try database.admin().query("ALTER DATABASE \(database.name) CONNECTION LIMIT -1")
        // The connection comes back eventually, and reads are answered.
        var upTo = Int64(3)
        while try recorder.events(recorder.read(ann, after: 0, upTo: upTo)) == nil {
            upTo += 1
            try insert("\(upTo)", "ann")
        }
    }

    // MARK: Outages

    @Test func revocationsAreUnknownWithoutTheDatabase() throws {
        let recorder = try record()
        try recorder.wait("all is known") { recorder.isUnlockedCurrent }
        try writer.execute("ALTER FUNCTION sync.revocations RENAME TO revocations_later")
        // Wakes the feed, which then fails to read.
        try insert("1", "ann")
        try recorder.wait("nothing is known") { !recorder.isUnlockedCurrent }
        let ann = recorder.watch("ann")
        try writer.execute("ALTER FUNCTION sync.revocations_later RENAME TO revocations")
        try recorder.waitForPosition(ann)
        try recorder.waitForLog(ann)
    }

    @Test func anOutageThatLastsIsTold() throws {
        let cluster = try Cluster()
        let database = try cluster.database()
        let recorder = try record(database) { $0.degradedAfter = .milliseconds(300) }
        try recorder.waitForStatus(.live)
        try cluster.stop("immediate")
        // On a slow machine, an outage may also be reported before the feed first connects.
        try recorder.wait("an outage") { recorder.unlockedDegradations.last == true }
        try cluster.start()
        try recorder.wait("its end") { recorder.unlockedDegradations.last == false }
        recorder.stop()
        try recorder.wait("each told once") {
            recorder.unlockedDegradations.enumerated().allSatisfy { $1 == ($0 % 2 == 0) }
        }
    }

    @Test func aShortOutageIsNot() throws {
        let recorder = try record { $0.degradedAfter = .seconds(20) }
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try terminate("sync.")
        try recorder.wait("it is noticed") { recorder.unlockedStatuses.contains(.away) }
        try recorder.waitForStatus(.live)
        try insert("1", "ann")
        try recorder.waitForLog(ann)
        recorder.stop()
        try recorder.wait("nothing told") { recorder.unlockedDegradations == [] }
    }

    /// A standby that lacks the last commits is promoted, and assigns their offsets to other events.
    @Test func aPromotionThatLosesCommitsIsAReset() throws {
        let primary = try Cluster()
        let database = try primary.database()
        var writer: BlockingConnection? = try Self.prepare(database)
        let standby = try Cluster(standbyOf: primary)
        let recorder = try record(database) {
            $0.connectionString = "host=\(primary.host),\(standby.host) dbname=\(database.name) user=carillon_hub"
        }
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        // The standby lacks these: it was copied before, and never began to follow.
        for number in 0..<5 { try insert("lost \(number)", "ann", by: writer) }
        try recorder.waitForLog(ann)
        let lost = try #require(recorder.stream(ann)?.position)
        writer = nil
        try primary.stop("immediate")
        try standby.promote()
        let heir = standby.database(named: database.name)
        let heirWriter = try heir.owner()
        for number in 0..<7 { try insert("kept \(number)", "ann", by: heirWriter) }
        try recorder.wait("a reset") { recorder.unlockedStream(ann)?.resets == 1 }
        try insert("more", "ann", by: heirWriter)
        try recorder.wait("the log of the heir") { recorder.unlockedStream(ann)?.position?.offset == 8 }
        let position = try #require(recorder.stream(ann)?.position)
        #expect(lost.offset == 5)
        #expect(position.epochText != lost.epochText)
        // A page of the old epoch is refused, although its offsets exist.
        let read = StreamRead(
            stream: ann, watch: recorder.stream(ann)?.serial ?? 0, epoch: lost.epoch, after: 3, upTo: 5)
        #expect(try recorder.failure(recorder.post(read)) == .otherEpoch)
        recorder.stop()
    }

    /// Both are on the second timeline of one system: devices must not take offsets of one for offsets of the other.
    @Test func twoRecoveriesFromOneBackupAreTwoEpochs() throws {
        let primary = try Cluster()
        let database = try primary.database()
        func greeted(_ cluster: Cluster) throws -> String {
            let hub = try BlockingConnection(cluster.database(named: database.name).hub)
            #expect(try hub.query("SELECT sync.repair_after_restore()") == [["0"]])
            let position = try hub.query("SELECT epoch FROM sync.positions('{ann}', '{adherence}')")
            return try #require(position.first?.first.flatMap { $0 })
        }
        let original = try greeted(primary)
        var epochs = [original]
        for _ in 0..<2 {
            let copy = try Cluster(standbyOf: primary)
            try copy.start()
            // A promotion tells a standby apart, and greeting it does not fail.
            #expect(try greeted(copy) == original)
            _ = try copy.database(named: database.name).admin().query("SELECT pg_promote()")
            let epoch = try greeted(copy)
            #expect(epoch.hasSuffix(".2"))
            #expect(try greeted(copy) == epoch)
            epochs.append(epoch)
        }
        #expect(Set(epochs).count == 3)
        #expect(try greeted(primary) == original)
    }
}
