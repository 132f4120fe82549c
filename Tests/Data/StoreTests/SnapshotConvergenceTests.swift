import Foundation
import Postgres
import Reactor
import Store
import TestDatabase
import TestSupport
import Testing

/// A snapshot at P and the events above P match the rows, however others write meanwhile.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct SnapshotConvergenceTests {
    private static let users = ["ann", "bob"]
    private static let subjects: [SnapshotSubject] = [
        .day("2025-11-20"), .day("2025-11-21"), .month(firstDay: "2025-11-01"), .reminders,
    ]

    @Test func snapshotsAndEventsAreTheRows() throws {
        let database = try Cluster.shared.get().database()
        try database.owner().execute(
            """
            CREATE OR REPLACE FUNCTION sync.clock() RETURNS timestamptz LANGUAGE sql
                AS $$ SELECT timestamptz '2025-11-20 12:00Z' $$
            """)
        let kiosk = try Kiosk(database)
        defer { kiosk.stop() }
        let seed = SeededRandom()
        var random = seed
        let failures = Locked<[String]>([])
        let running = Locked(3)
        let writers = (0..<3).map { writer in
            let seed = random.next()
            return Thread {
                defer { running.withLock { $0 -= 1 } }
                do {
                    var writer = try RandomWriter(database, number: writer, SeededRandom(seed: seed))
                    for _ in 0..<150 { try writer.step() }
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        var early: [(user: String, subject: SnapshotSubject, snapshot: Snapshot)] = []
        while running.withLock({ $0 }) > 0 {
            for user in Self.users {
                for subject in Self.subjects { early.append((user, subject, try kiosk.found(user, subject))) }
            }
        }
        for writer in writers { writer.join() }
        #expect(failures.withLock { $0 } == [], "seed \(seed.seed)")

        let log = try database.owner().query(
            "SELECT user_id, topic, o, name, data FROM sync.event ORDER BY user_id, topic, o"
        ).map { try LoggedEvent($0) }
        #expect(log.count > 300, "seed \(seed.seed)")
        for user in Self.users {
            for subject in Self.subjects {
                let last = try SnapshotView(subject, try kiosk.found(user, subject))
                let topic = subject == .reminders ? "reminders" : "adherence"
                let events = log.filter { $0.user == user && $0.topic == topic }
                #expect(last.offset == events.last?.offset ?? 0, "seed \(seed.seed)")
                for one in early where one.user == user && one.subject == subject {
                    var view = try SnapshotView(subject, one.snapshot)
                    for event in events where event.offset > view.offset { view.apply(event) }
                    #expect(view == last, "\(user) \(subject) from \(one.snapshot.offset), seed \(seed.seed)")
                }
            }
        }
    }
}

/// Writes what any backend may: one to three changes in a transaction, some rolled back.
private struct RandomWriter {
    private let connection: BlockingConnection
    private let number: Int
    private var random: SeededRandom
    private var serial = 0

    init(_ database: Database, number: Int, _ random: SeededRandom) throws {
        connection = try database.owner()
        self.number = number
        self.random = random
    }

    mutating func step() throws {
        try connection.execute("BEGIN")
        do {
            for _ in 0..<Int.random(in: 1...3, using: &random) { try connection.execute(change()) }
            try connection.execute(Int.random(in: 0..<10, using: &random) == 0 ? "ROLLBACK" : "COMMIT")
        } catch {
            // Deadlocks, and rules deleted by another writer, which any writer may meet.
            try connection.execute("ROLLBACK")
        }
    }

    private mutating func change() -> String {
        serial += 1
        let id = "w\(number)-\(serial)"
        let user = Bool.random(using: &random) ? "ann" : "bob"
        let at = "2025-11-\(Int.random(in: 20...21, using: &random)) \(Int.random(in: 10...19, using: &random)):00Z"
        let status = ["scheduled", "taken", "missed", "made_up", "skipped", "cancelled"].randomElement(using: &random)
        let dose = "SELECT id FROM care.dose_occurrence WHERE user_id = '\(user)' ORDER BY md5(id || '\(id)') LIMIT 1"
        let rule = "SELECT id FROM care.reminder_rule WHERE user_id = '\(user)' ORDER BY md5(id || '\(id)') LIMIT 1"
        switch Int.random(in: 0..<14, using: &random) {
        case 0...2:
            return "INSERT INTO care.dose_occurrence (id, user_id, scheduled_at) VALUES ('\(id)', '\(user)', '\(at)')"
        case 3...5: return update("status = '\(status ?? "taken")'", dose)
        case 6: return update("scheduled_at = '\(at)', local_date = '\(at.prefix(10))'", dose)
        case 7: return update("user_id = '\(user == "ann" ? "bob" : "ann")'", dose)
        case 8: return update("note = '\(id)'", dose)
        case 9: return "DELETE FROM care.dose_occurrence WHERE id = (\(dose))"
        case 10:
            return """
                INSERT INTO care.reminder_rule (id, user_id, time, timezone)
                VALUES ('\(id)', '\(user)', '08:00', 'UTC')
                """
        case 11: return "UPDATE care.reminder_rule SET label = '\(id)', enabled = NOT enabled WHERE id = (\(rule))"
        case 12: return "DELETE FROM care.reminder_rule WHERE id = (\(rule))"
        default:
            return """
                INSERT INTO care.reminder_occurrence (rule_id, user_id, original_local, status)
                SELECT id, '\(user)', '2025-11-25 08:00', 'cancelled' FROM (\(rule)) AS r
                ON CONFLICT (rule_id, original_local)
                    DO UPDATE SET snooze_count = reminder_occurrence.snooze_count + 1
                """
        }
    }
    private func update(_ assignments: String, _ dose: String) -> String {
        "UPDATE care.dose_occurrence SET \(assignments) WHERE id = (\(dose))"
    }
}
