import Foundation
import Testing

@testable import Notifications

@Suite struct SchedulerTests {
    private let utc: TimeZone
    private let begin: Date

    init() throws {
        utc = try #require(TimeZone(secondsFromGMT: 0))
        begin = try Date("2025-11-20T12:00:00Z", strategy: .iso8601)
    }

    private func request(_ id: String, _ schedule: NotificationSchedule) -> NotificationRequest {
        NotificationRequest(id: id, title: "t", body: "b", schedule: schedule)
    }

    private func times(_ scheduler: VirtualNotificationScheduler) async -> [String] {
        await scheduler.delivered.map { "\($0.request.id) \($0.date.formatted(.iso8601))" }
    }

    @Test func whatRepeatsComesAgain() async throws {
        let scheduler = VirtualNotificationScheduler(now: begin, zone: utc)
        let twice = [DateComponents(hour: 8), DateComponents(hour: 20)]
        try await scheduler.schedule(request("a", .calendars(twice, repeats: true)))
        await scheduler.advance(to: begin.addingTimeInterval(86_400))
        #expect(await times(scheduler) == ["a 2025-11-20T20:00:00Z", "a 2025-11-21T08:00:00Z"])
        #expect(await scheduler.pending.count == 1)
    }

    @Test func whatDoesNotRepeatComesOnce() async throws {
        let scheduler = VirtualNotificationScheduler(now: begin, zone: utc)
        let twice = [DateComponents(hour: 8), DateComponents(hour: 20)]
        try await scheduler.schedule(request("a", .calendars(twice, repeats: false)))
        try await scheduler.schedule(request("b", .calendar(DateComponents(hour: 13), repeats: false)))
        await scheduler.advance(to: begin.addingTimeInterval(3 * 86_400))
        #expect(
            await times(scheduler) == ["b 2025-11-20T13:00:00Z", "a 2025-11-20T20:00:00Z", "a 2025-11-21T08:00:00Z"])
        #expect(await scheduler.pending.isEmpty)
    }

    @Test func anIdIsOneNotification() async throws {
        let scheduler = VirtualNotificationScheduler(now: begin, zone: utc)
        try await scheduler.schedule(request("a", .calendar(DateComponents(hour: 13), repeats: false)))
        try await scheduler.schedule(request("a", .calendar(DateComponents(hour: 14), repeats: false)))
        try await scheduler.schedule(request("b", .calendar(DateComponents(hour: 15), repeats: false)))
        await scheduler.cancel(ids: ["b", "unknown"])
        await scheduler.advance(to: begin.addingTimeInterval(86_400))
        #expect(await times(scheduler) == ["a 2025-11-20T14:00:00Z"])
    }

    @Test func componentsHaveTheirZone() async throws {
        let scheduler = VirtualNotificationScheduler(now: begin, zone: utc)
        let tokyo = DateComponents(timeZone: TimeZone(identifier: "Asia/Tokyo"), hour: 8)
        try await scheduler.schedule(request("a", .calendar(tokyo, repeats: false)))
        await scheduler.advance(to: begin.addingTimeInterval(86_400))
        #expect(await times(scheduler) == ["a 2025-11-20T23:00:00Z"])
    }

    @Test func nothingIsLostThatComesAtTheSameTime() async throws {
        let scheduler = VirtualNotificationScheduler(now: begin, zone: utc)
        let evening = DateComponents(hour: 20)
        for id in ["a", "b"] { try await scheduler.schedule(request(id, .calendar(evening, repeats: true))) }
        try await scheduler.schedule(request("c", .calendar(evening, repeats: false)))
        await scheduler.advance(to: begin.addingTimeInterval(86_400))
        #expect(await scheduler.delivered.map(\.request.id) == ["a", "b", "c"])
        #expect(await scheduler.pending.keys.sorted() == ["a", "b"])
    }

    @Test func thePersonIsAskedOnce() async throws {
        let scheduler = VirtualNotificationScheduler(now: begin, zone: utc)
        try await scheduler.requestAuthorizationIfNeeded()
        try await scheduler.requestAuthorizationIfNeeded()
        #expect(await scheduler.questions == 1)
        let denied = VirtualNotificationScheduler(now: begin, zone: utc, isAllowed: false)
        await #expect(throws: NotificationError.denied) { try await denied.requestAuthorizationIfNeeded() }
        await #expect(throws: NotificationError.noTime) {
            try await denied.schedule(request("a", .calendars([], repeats: true)))
        }
    }
}
