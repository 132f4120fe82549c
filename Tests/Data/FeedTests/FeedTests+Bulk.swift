import Postgres
import Sync
import TestDatabase
import TestSupport
import Testing

@testable import Feed

/// Large commits against a real server: read once, beside the live events of others.
extension FeedTests {
    /// Inserts `count` events of `user` in one commit.
    private func insertBulk(_ count: Int, _ user: String, by writer: BlockingConnection? = nil) throws {
        _ = try (writer ?? self.writer).query(
            "INSERT INTO app.item SELECT $1 || ' bulk ' || g, $1, 'x' FROM generate_series(1, $2::int) AS g",
            [user, String(count)])
    }

    /// Waits until the bulk connection has reached that state.
    private func waitForBulk(_ state: String) throws {
        let admin = try database.admin()
        let isThere = try eventually {
            try !admin.query(
                """
                SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = 'carillon_hub'
                AND query LIKE '%open_bulk%' AND state = $1
                """, [state]
            ).isEmpty
        }
        #expect(isThere)
    }

    /// The bulk takes as many pages as its rows make, and the tail reads none of them: the time is linear in the rows.
    @Test func aBulkIsReadOnce() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(ann, bob)
        let tails = recorder.metrics.reads["tail"].count
        try insertBulk(20_500, "ann")
        try recorder.waitForLog(ann)
        #expect(recorder.metrics.reads["bulk"].count == 21)
        #expect(recorder.metrics.reads["replay"].count == 0)
        #expect(recorder.metrics.reads["tail"].count - tails <= 3)
        #expect(recorder.stream(ann)?.events.count == 20_500)
        #expect(recorder.stream(ann)?.events.allSatisfy { $0.committedAt > 0 } == true)
        // Next, a commit of exactly one page, and of one row more: without a cursor, and with one.
        try insertBulk(FeedLimits.pageRows, "bob")
        try recorder.waitForLog(bob)
        #expect(recorder.metrics.reads["bulk"].count == 21)
        try insertBulk(FeedLimits.pageRows + 1, "carol")
        try insert("one", "bob")
        try recorder.waitForLog(ann, bob)
        #expect(recorder.gapCount == 0)
        #expect(!recorder.seenStatuses.contains(.away))
    }

    /// Receivers have no room for the bulk but enough for live events, so those of other streams arrive. A stream whose
    /// live event came before its bulk waits for healing as the bulk does, since the replay is as long.
    @Test func othersDoNotWaitForABulk() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        let eve = recorder.watch("eve")
        try recorder.waitForPosition(ann, bob, eve)
        recorder.setBacklog(FeedLimits.bulkBacklogMax + 1)
        try writer.execute("BEGIN")
        try insertBulk(3_000, "ann")
        try insertBulk(3_000, "eve")
        try writer.execute("COMMIT")
        try waitForBulk("idle in transaction")
        try insert("live", "bob")
        try recorder.waitForLog(bob)
        #expect(recorder.stream(ann)?.events.count == 0)
        try insert("live too", "ann")
        try insert("live as well", "bob")
        try recorder.waitForLog(bob)
        #expect(recorder.stream(ann)?.events.count == 0 && recorder.stream(eve)?.events.count == 0)
        recorder.setBacklog(0)
        try recorder.waitForLog(ann, bob, eve)
        #expect(recorder.gapCount == 0)
    }

    @Test func losingTheBulkConnectionLosesNothing() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(ann, bob)
        let admin = try database.admin()
        for round in 0..<3 {
            // The four connections of a feed: without the bulk's, a large commit is read by comparing streams.
            let areThere = try eventually {
                try admin.query(
                    """
                    SELECT pid FROM pg_stat_activity
                    WHERE datname = current_database() AND usename = 'carillon_hub' AND state = 'idle'
                    """
                ).count == 4
            }
            #expect(areThere)
            recorder.setBacklog(FeedLimits.bulkBacklogMax + 1)
            try insertBulk(3_000, "ann \(round)")
            _ = try writer.query("UPDATE app.item SET user_id = 'ann', rev = 2 WHERE user_id = $1", ["ann \(round)"])
            try waitForBulk("idle in transaction")
            try terminate("open_bulk")
            recorder.setBacklog(0)
            try insert("\(round)", "bob")
            try recorder.waitForLog(ann, bob)
        }
        #expect(recorder.stream(ann)?.events.count == 9_000)
        #expect(recorder.stream(ann)?.resets == 0)
        #expect(!recorder.seenStatuses.contains(.away))
    }

    /// The tail's connection is lost while a cursor is open: the cursor's later pages are ignored.
    @Test func losingTheTailAmidABulkLosesNothing() throws {
        let recorder = try record()
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        recorder.setBacklog(FeedLimits.bulkBacklogMax + 1)
        try insertBulk(3_000, "ann")
        try waitForBulk("idle in transaction")
        #expect(try eventually { try terminate("sync.news") })
        try recorder.wait("the loss is noticed") { recorder.unlockedStatuses.contains(.away) }
        recorder.setBacklog(0)
        try recorder.waitForLog(ann)
        #expect(recorder.stream(ann)?.events.count == 3_000)
        #expect(recorder.stream(ann)?.resets == 0)
    }

    /// As when all of the server's connections are taken.
    @Test func withoutABulkConnectionAllIsRead() throws {
        try writer.execute("ALTER FUNCTION sync.open_bulk RENAME TO open_bulk_later")
        let recorder = try record()
        let ann = recorder.watch("ann")
        let bob = recorder.watch("bob")
        try recorder.waitForPosition(ann, bob)
        for round in 0..<2 {
            try insertBulk(2_500, "ann \(round)")
            _ = try writer.query(
                "UPDATE app.item SET user_id = $2, rev = 2 WHERE user_id = $1",
                ["ann \(round)", round == 0 ? "ann" : "bob"])
            try recorder.waitForLog(ann, bob)
        }
        #expect(recorder.stream(ann)?.events.count == 2_500)
        #expect(recorder.stream(bob)?.events.count == 2_500)
        #expect(recorder.stream(ann)?.resets == 0)
    }

    /// Bulks in sequence, beside small commits to the same streams, rollbacks, and terminated backends.
    @Test func bulksBesideWritersWithFaults() async throws {
        let recorder = try record { $0.pollInterval = .milliseconds(300) }
        let streams = ["ann", "bob"].map { recorder.watch($0) }
        for stream in streams { try recorder.waitForPosition(stream) }
        let database = database
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<2 {
                group.addTask {
                    let writer = try database.owner()
                    for round in 0..<6 {
                        let user = (round + number) % 2 == 0 ? "ann" : "bob"
                        try writer.execute("BEGIN")
                        _ = try writer.query(
                            "INSERT INTO app.item SELECT $1 || g, $2, 'x' FROM generate_series(1, 1500) AS g",
                            ["\(number) \(round) ", user])
                        try writer.execute(round % 5 == 4 ? "ROLLBACK" : "COMMIT")
                    }
                }
            }
            for number in 0..<30 {
                try insert("small \(number)", ["ann", "bob"][number % 2])
                if number % 10 == 9 { try terminate(number == 19 ? "sync.news" : "bulk") }
            }
            try await group.waitForAll()
        }
        for stream in streams { try recorder.waitForLog(stream) }
        #expect(streams.allSatisfy { recorder.stream($0)?.resets == 0 })
    }
}
