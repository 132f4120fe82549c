import JSON
import Postgres
import TestDatabase
import TestSupport
import Testing

@testable import Care

/// Which schedule of a medication goes on as which, by the model and by the database.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(5)))
struct MedicationTimeTests {
    typealias Case = (present: [MedicationTime], wanted: [MedicationTime])
    private static let minutes: [Int?] = [nil, 0, 420, 480, 480, 720, 1_200, 1_200, 1_380, 1_439]
    private static let repeats = ["daily", "daily", "custom [4]"]

    static func cases(_ count: Int, seed: UInt64) -> [Case] {
        var random = SeededRandom(seed: seed)
        func time(_ random: inout SeededRandom, isWanted: Bool) -> MedicationTime {
            let minute = minutes[Int.random(in: 0..<minutes.count, using: &random)]
            let repeats = minute == nil ? "as_needed" : repeats[Int.random(in: 0..<3, using: &random)]
            return MedicationTime(
                minute, repeats: repeats, isPaused: !isWanted && Int.random(in: 0..<6, using: &random) == 0,
                isOver: !isWanted && Int.random(in: 0..<6, using: &random) == 0)
        }
        return (0..<count).map { _ in
            let present = (0..<Int.random(in: 0..<5, using: &random)).map { _ in time(&random, isWanted: false) }
            let wanted = (0..<Int.random(in: 1..<3, using: &random)).map { _ in time(&random, isWanted: true) }
            // In the order in which the hub and its clients have them.
            return (
                present.sorted { ($0.minute ?? 9_999) < ($1.minute ?? 9_999) },
                wanted.sorted { ($0.minute ?? 9_999) < ($1.minute ?? 9_999) }
            )
        }
    }

    @Test func equalTimesComeFirst() {
        let times = { (minutes: [Int]) in minutes.map { MedicationTime($0) } }
        #expect(MedicationTime.pairs(times([480, 1_200]), times([1_200])) == [1])
        #expect(MedicationTime.pairs(times([1_200]), times([480, 1_200])) == [nil, 0])
        #expect(MedicationTime.pairs(times([480, 1_200]), times([1_200, 1_380])) == [1, nil])
        #expect(MedicationTime.pairs(times([480, 1_200]), times([540, 1_200])) == [0, 1])
        #expect(MedicationTime.pairs(times([480, 1_200]), times([1_260])) == [1])
        #expect(MedicationTime.pairs(times([480]), [MedicationTime(nil)]) == [0])
        #expect(MedicationTime.pairs([MedicationTime(480, isOver: true)], times([480])) == [nil])
    }

    @Test func theDatabasePairsThemAlike() async throws {
        let random = SeededRandom()
        let differences = try await onOwnThread { () -> [String] in
            let connection = try Cluster.shared.get().database().owner()
            return try Self.cases(400, seed: random.seed).compactMap { one in
                let rows = try connection.query(
                    """
                    select care.paired(
                        array(select jsonb_populate_record(null::care.schedule, e) from jsonb_array_elements($1) as e),
                        array(select jsonb_populate_record(null::care.schedule, e) from jsonb_array_elements($2) as e),
                        '2025-11-20 12:00Z')
                    """, [Self.text(one.present), Self.text(one.wanted)])
                let pairs = MedicationTime.pairs(one.present, one.wanted).map { $0.map { String($0 + 1) } ?? "NULL" }
                let found = rows.first?.first.flatMap { $0 } ?? ""
                return found == "{\(pairs.joined(separator: ","))}" ? nil : "\(one): \(found), \(pairs)"
            }
        }
        #expect(differences == [], "CARILLON_SEED=\(random.seed)")
    }

    /// As the database has schedules.
    private static func text(_ times: [MedicationTime]) -> String {
        JSONTree.array(times.map { tree($0, weekdays: "repeat_on", end: "ends_on") }).canonicalText
    }

    /// What clients in other languages are held to: `Tests/Vectors/schedules.json`.
    static func vector(seed: UInt64) -> JSONTree {
        let steps = cases(25, seed: seed).map { one in
            let pairs = MedicationTime.pairs(one.present, one.wanted)
            let (present, wanted) = (one.present.map { tree($0) }, one.wanted.map { tree($0) })
            return JSONTree.object([
                .init("present", .array(present)), .init("wanted", .array(wanted)),
                .init("pairs", .array(pairs.map { $0.map { .integer(Int64($0)) } ?? .null })),
            ])
        }
        return .object([.init("seed", .string(String(seed))), .init("steps", .array(steps))])
    }

    private static func tree(
        _ time: MedicationTime, weekdays: String = "repeatOn", end: String = "endsOn"
    ) -> JSONTree {
        let two = { (number: Int) in (number < 10 ? "0" : "") + String(number) }
        let parts = time.repeats.split(separator: " ").map(String.init)
        return .object([
            .init("time", .text(time.minute.map { "\(two($0 / 60)):\(two($0 % 60))" })),
            .init("repeat", .string(parts[0])),
            .init(weekdays, parts.count > 1 ? .array([.integer(4)]) : .null), .init("enabled", .bool(!time.isPaused)),
            .init(end, .text(time.isOver ? "2025-11-19" : nil)), .init("timezone", .string("UTC")),
        ])
    }
}
