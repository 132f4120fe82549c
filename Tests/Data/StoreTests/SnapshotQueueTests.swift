import Bytes
import Clock
import Reactor
import Testing

@testable import Store

/// Whose snapshot is next.
@Suite final class SnapshotQueueTests {
    private var queue = SnapshotQueue(countMax: 10, perUserMax: 4)
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func read(_ user: String, at now: Instant? = nil) throws -> SnapshotRead {
        let request = SnapshotSubject.reminders.asked(by: user) { _ in }
        return try #require(SnapshotRead(request, now: now ?? start, timeout: .seconds(10)))
    }

    // The macros of Testing take values, which do not change.

    private func add(_ user: String, at now: Instant? = nil) throws -> Bool {
        queue.append(try read(user, at: now))
    }
    private func next() -> SnapshotRead? { queue.next() }
    private func expire(_ now: Instant) -> Int { queue.expire(now: now).count }
    private func removeWaiting() -> Int { queue.removeWaiting().count }

    private func served() -> [TextKey] {
        var served: [TextKey] = []
        while let read = next() {
            served.append(read.user)
            queue.done(read)
        }
        return served
    }

    @Test func usersAreServedInTurn() throws {
        for user in ["a", "a", "a", "b", "b", "c"] { #expect(try add(user)) }
        #expect(served() == ["a", "b", "c", "a", "b", "a"].map { TextKey($0) })
        #expect(queue.userCount == 0 && queue.count == 0)
    }

    @Test func oneOfAUserIsUnderWay() throws {
        for user in ["a", "a", "b"] { #expect(try add(user)) }
        let first = try #require(next())
        #expect(next()?.user == TextKey("b"))
        #expect(next() == nil)
        queue.done(first)
        queue.done(first)
        #expect(next()?.user == TextKey("a"))
        #expect(next() == nil && queue.count == 0)
    }

    @Test func whatWaitsIsBounded() throws {
        for _ in 0..<4 { #expect(try add("a")) }
        #expect(try !add("a"))
        _ = next()
        #expect(try add("a"))
        #expect(try !add("a"))
        for user in ["b", "c", "d", "e", "f", "g"] { #expect(try add(user)) }
        #expect(try !add("h"))
        #expect(queue.count == 10 && queue.userCount == 7)
    }

    @Test func theLostComesFirst() throws {
        for user in ["a", "a", "b", "c"] { #expect(try add(user)) }
        let first = try #require(next())
        queue.again(first)
        queue.again(first)
        #expect(queue.count == 4)
        #expect(next() === first)
        #expect(next()?.user == TextKey("b"))
    }

    @Test func whatWaitedInVainIsTakenOut() throws {
        #expect(try add("a"))
        #expect(try add("b"))
        #expect(try add("b", at: start.advanced(by: .seconds(5))))
        #expect(try add("c"))
        let first = try #require(next())
        #expect(expire(start.advanced(by: .seconds(9))) == 0)
        #expect(expire(start.advanced(by: .seconds(10))) == 2)
        #expect(queue.count == 1 && queue.userCount == 2)
        queue.done(first)
        #expect(served() == [TextKey("b")])
        #expect(queue.userCount == 0)
    }

    @Test func whatIsUnderWayStays() throws {
        for user in ["a", "a", "b"] { #expect(try add(user)) }
        let first = try #require(next())
        #expect(removeWaiting() == 2)
        #expect(queue.count == 0 && queue.userCount == 1)
        #expect(next() == nil)
        #expect(try add("a"))
        #expect(next() == nil)
        queue.done(first)
        #expect(served() == [TextKey("a")])
    }
}
