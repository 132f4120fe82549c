import Foundation
import Logging
import Postgres
import Reactor
import TestDatabase
import TestSupport
import Testing

@testable import Feed

/// Published tables that stop reporting their changes while a hub runs.
extension FeedTests {
    @Test func publishedTablesAreCheckedWithPositions() throws {
        let log = KeptLines()
        let recorder = try Recorder(database, logger: Logger(label: "feed") { _ in log }) {
            $0.positionCheckInterval = .milliseconds(20)
        }
        defer { recorder.stop() }
        let problems = recorder.metrics.publishedProblems
        try recorder.waitForStatus(.live)
        #expect(problems.level == 0)

        try writer.execute("ALTER TABLE app.item DISABLE TRIGGER sync_update")
        #expect(eventually { problems.level == 1 })
        try writer.execute("ALTER TABLE app.item RENAME TO item_old; CREATE TABLE app.item (LIKE app.item_old)")
        #expect(eventually { problems.level == 2 })
        // Each problem is logged once, however often it is seen.
        let sightings = recorder.metrics.reads["check"].count
        _ = recorder.watch("ann")
        #expect(eventually { recorder.metrics.reads["check"].count > sightings + 5 })
        let complaints = log.all.filter { $0.contains("does not tell all its changes") }
        #expect(
            complaints.filter { $0.contains("trigger sync_update is missing") && $0.contains("table=app.item ") }.count
                == 1)
        #expect(complaints.filter { $0.contains("another table now") && $0.contains("table=app.item_old") }.count == 1)

        try writer.execute("DROP TABLE app.item; ALTER TABLE app.item_old RENAME TO item")
        _ = try writer.query("SELECT sync.publish_changes('app.item', 'user_id', 'items', 'item')")
        #expect(eventually { problems.level == 0 })
        #expect(eventually { log.all.contains { $0.contains("all published tables tell all their changes again") } })
    }

    /// A failed check is itself a problem, and stops no event.
    @Test func aCheckThatFailsStopsNothing() throws {
        let recorder = try record { $0.positionCheckInterval = .milliseconds(20) }
        let ann = recorder.watch("ann")
        try recorder.waitForPosition(ann)
        try database.admin().execute("REVOKE EXECUTE ON FUNCTION sync.check_published() FROM carillon_hub")
        #expect(eventually { recorder.metrics.publishedProblems.level == 1 })
        try insert("a", "ann")
        try recorder.waitForLog(ann)
        #expect(!recorder.seenStatuses.contains(.away))
        try database.admin().execute("GRANT EXECUTE ON FUNCTION sync.check_published() TO carillon_hub")
        #expect(eventually { recorder.metrics.publishedProblems.level == 0 })
    }

    /// The bound, and one past it.
    @Test func problemsAreBounded() throws {
        let tables = FeedLimits.publishedProblems / 4
        for number in 0...tables {
            try writer.execute("CREATE TABLE app.t\(number) (id int PRIMARY KEY, user_id text)")
            _ = try writer.query("SELECT sync.publish_changes('app.t\(number)', 'user_id', 'items', 'item')")
        }
        let recorder = try record { $0.positionCheckInterval = .milliseconds(20) }
        for number in 0..<tables { try writer.execute("ALTER TABLE app.t\(number) DISABLE TRIGGER USER") }
        #expect(eventually { recorder.metrics.publishedProblems.level == FeedLimits.publishedProblems })
        try writer.execute("ALTER TABLE app.t\(tables) DISABLE TRIGGER USER")
        for number in 0..<2 {
            _ = try writer.query("SELECT sync.publish_changes('app.t\(number)', 'user_id', 'items', 'item')")
        }
        #expect(eventually { recorder.metrics.publishedProblems.level == FeedLimits.publishedProblems - 4 })
    }
}
