import Care
import Foundation
import JSON
import Testing

@testable import CarillonClient

/// Which doses are today's, whatever their own dates.
@Suite struct TodayListTests {
    /// A dose of a zone, with a window of four hours.
    private func dose(_ id: String, _ wall: String, _ zone: String, _ status: String = "scheduled") -> Entity {
        let instant = TimeText.instant(wall) ?? Timestamp(microseconds: 0)
        let value = Entity.doseTree(id, status, rev: 1).setting([
            .init("scheduledAt", .string(TimeText.text(instant))), .init("timeLocal", .string(wall)),
            .init("timezone", .string(zone)), .init("localDate", .string(String(wall.prefix(10)))),
            .init("windowStart", .null), .init("windowEnd", .string(TimeText.text(instant.adding(seconds: 14_400)))),
        ])
        return Entity(.dose, id, offset: 1, value: value, statusRev: 1, noteRev: 1)
    }

    private func listed(_ doses: [Entity], _ zone: String, _ day: String, at now: String) throws -> [String] {
        let loaded = Entity(.loaded, "day:\(day)", offset: 1, value: .bool(true))
        let mirror = Mirror(
            entities: doses + [loaded], positions: ["user.u.adherence": StoredPosition(epoch: "e", offset: 1)],
            meta: [MirrorKey.device: "phone"])
        let now = try #require(TimeText.instant(now))
        var overlay = DoseOverlay()
        overlay.fold(mirror, zone: zone, at: now)
        let shown = overlay.day(mirror, day, user: "u", at: now)?.doses.map(\.id) ?? []
        let made = try RowBuilder(mirror: mirror, zone: zone, now: now)
            .row("bulkMarkAll", .parsed(#"{"criteria": {}}"#), overlay: &overlay) { "k" }
        return shown + ["|"] + (made.row.payload["occurrenceIds"]?.elements.compactMap(\.string) ?? [])
    }

    /// Los Angeles' evening, a person in Tokyo.
    @Test func whatIsDueNowIsInTodayWhateverItsDate() throws {
        let doses = (12...15).map { dose("d\($0)", "2025-11-\($0)T20:00:00-08:00", "America/Los_Angeles") }
        func listed(_ now: String, _ day: String = "2025-11-14") throws -> [String] {
            try self.listed(doses, "Asia/Tokyo", day, at: now)
        }
        #expect(try listed("2025-11-14T13:05:00+09:00") == ["d13", "|", "d13"])
        #expect(try listed("2025-11-14T12:55:00+09:00") == ["d13", "|"])
        #expect(try listed("2025-11-15T00:05:00+09:00", "2025-11-15") == ["d14", "|"])
    }

    @Test func lastEveningsDoseIsInTodayWhileItsWindowRuns() throws {
        let doses =
            (12...14).map { dose("d\($0)", "2025-11-\($0)T23:30:00+01:00", "Europe/Berlin") }
            + [dose("e13", "2025-11-13T23:20:00+01:00", "Europe/Berlin", "taken")]
        func listed(_ now: String) throws -> [String] {
            try self.listed(doses, "Europe/Berlin", "2025-11-14", at: now)
        }
        #expect(try listed("2025-11-14T00:10:00+01:00") == ["e13", "d13", "d14", "|", "d13"])
        #expect(try listed("2025-11-14T03:29:59+01:00") == ["d13", "d14", "|", "d13"])
        #expect(try listed("2025-11-14T03:30:00+01:00") == ["d14", "|"])
    }
}
