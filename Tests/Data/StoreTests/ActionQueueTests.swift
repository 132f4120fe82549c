import Bytes
import Clock
import Reactor
import Sync
import TestSupport
import Testing

@testable import Store

/// Whose turn it is.
@Suite final class ActionQueueTests {
    private var queue = ActionQueue(QueueBounds(actions: 20, actionsPerUser: 5, bytes: 10_000, suspects: 3))
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func add(
        _ user: String, _ key: String, at now: Instant? = nil, bytes: Int = 0
    ) throws -> ActionQueue.Refusal? {
        let now = now ?? start
        let envelope = ActionEnvelope(key: key, type: "t", payload: Array(repeating: 0x20, count: bytes))
        let request = ActionRequest(user: user, envelope: envelope) { _ in }
        let action = try #require(
            Action(request, line: queue.line(user), deadline: now.advanced(by: .seconds(10))))
        return queue.append(action, now: now)
    }

    // The macros of Testing take values, which do not change.

    private func next() -> Action? { queue.next() }
    private func expire(_ now: Instant) -> [Action] { queue.expire(now: now) }
    private func nextSuspect() -> Action? { queue.nextSuspect() }
    private func hold(_ action: Action, _ now: Instant) -> (pause: Duration, rest: [Action]) {
        queue.hold(action, now: now, pause: .milliseconds(300), .locked)
    }
    private func removeWaiting(keepingLost: Bool = false) -> [Action] { queue.removeWaiting(keepingLost: keepingLost) }

    @Test func usersAreServedInTurn() throws {
        for key in ["a1", "a2", "a3"] { #expect(try add("a", key) == nil) }
        for key in ["b1", "b2"] { #expect(try add("b", key) == nil) }
        #expect(try add("c", "c1") == nil)
        var served: [String] = []
        while let action = next() {
            served.append(action.key)
            queue.done(action)
        }
        #expect(served == ["a1", "b1", "c1", "a2", "b2", "a3"])
        #expect(queue.userCount == 0)
        #expect(queue.isIdle)
    }

    @Test func oneOfAUserIsUnderWay() throws {
        for key in ["a1", "a2"] { #expect(try add("a", key) == nil) }
        #expect(try add("b", "b1") == nil)
        let first = try #require(next())
        #expect(try #require(next()).key == "b1")
        #expect(next() == nil)
        queue.done(first)
        #expect(next()?.key == "a2")
    }

    @Test func theLostComesFirst() throws {
        for key in ["a1", "a2"] { #expect(try add("a", key) == nil) }
        for user in ["b", "c"] { #expect(try add(user, "\(user)1") == nil) }
        let first = try #require(next())
        queue.again(first)
        #expect(next() === first)
        #expect(next()?.key == "b1")
    }

    @Test func aLockedUserIsHeld() throws {
        for key in ["a1", "a2", "a3"] { #expect(try add("a", key) == nil) }
        let first = try #require(next())
        let end = start.advanced(by: .milliseconds(300))
        #expect(hold(first, start).rest.map(\.key) == ["a2", "a3"])
        #expect(queue.waitingCount == 0)
        #expect(queue.waitingBytes == 0)
        #expect(try add("a", "a4") == .held(end, .locked))
        #expect(try add("b", "b1") == nil)
        #expect(try add("a", "a5", at: end) == nil)
        #expect(next()?.key == "b1")
        #expect(next() == nil)
        #expect(nextSuspect()?.key == "a5")
    }

    @Test func oneOfAllSuspectsIsUnderWay() throws {
        for user in ["a", "b"] {
            #expect(try add(user, "\(user)1") == nil)
            _ = hold(try #require(next()), start)
        }
        let later = start.advanced(by: .seconds(1))
        for user in ["a", "b"] { for number in 2...3 { #expect(try add(user, "\(user)\(number)", at: later) == nil) } }
        #expect(next() == nil)
        let first = try #require(nextSuspect())
        #expect(first.key == "a2")
        #expect(nextSuspect() == nil)
        queue.again(first)
        #expect(nextSuspect() === first)
        // Answered, its user is none any more.
        queue.done(first, isDecided: true)
        #expect(next()?.key == "a3")
        let second = try #require(nextSuspect())
        #expect(second.key == "b2")
        // Done without the database's word: still one.
        queue.done(second)
        #expect(next() == nil)
        #expect(nextSuspect()?.key == "b3")
        #expect(queue.hasSuspect)
    }

    @Test func pausesGrowUntilTheDatabaseAnswers() throws {
        var now = start
        var pauses: [Duration] = []
        for number in 1...7 {
            #expect(try add("a", "a\(number)", at: now) == nil)
            let action = try #require(number == 1 ? next() : nextSuspect())
            pauses.append(hold(action, now).pause)
            now = now.advanced(by: .seconds(5))
        }
        #expect(pauses == [300, 600, 1_200, 2_400, 4_800, 5_000, 5_000].map { .milliseconds($0) })
        #expect(try add("a", "a8", at: now) == nil)
        queue.done(try #require(nextSuspect()), isDecided: true)
        #expect(queue.userCount == 0)
        #expect(try add("a", "a9", at: now) == nil)
        #expect(hold(try #require(next()), now).pause == .milliseconds(300))
    }

    @Test func aHeldUserIsForgottenInTime() throws {
        #expect(try add("a", "a1") == nil)
        _ = hold(try #require(next()), start)
        let end = start.advanced(by: .milliseconds(300))
        #expect(expire(end).isEmpty)
        #expect(queue.userCount == 1)
        #expect(expire(end.advanced(by: StoreLimits.suspicionLasts)).isEmpty)
        #expect(queue.userCount == 0)
    }

    @Test func suspectsAreBounded() throws {
        for user in ["a", "b", "c"] {
            #expect(try add(user, "1") == nil)
            _ = hold(try #require(next()), start)
        }
        for key in ["1", "2"] { #expect(try add("d", key) == nil) }
        #expect(hold(try #require(next()), start).rest.isEmpty)
        #expect(next()?.key == "2")
        #expect(queue.userCount == 4)
    }

    @Test func bytesAreBounded() throws {
        #expect(try add("a", "a1", bytes: 6_000) == nil)
        #expect(try add("a", "a2", bytes: 5_000) == .full)
        #expect(try add("a", "a2", bytes: 3_000) == nil)
        // Whoever has nothing waiting has room still, up to a second bound.
        #expect(try add("b", "b1", bytes: 5_000) == .full)
        #expect(try add("b", "b1", bytes: 3_000) == nil)
        #expect(try add("c", "c1", bytes: 1_000) == .full)
        let first = try #require(next())
        #expect(try add("c", "c1", bytes: 1_000) == nil)
        queue.again(first)
        #expect(removeWaiting().count == 4)
        #expect(queue.waitingBytes == 0)
    }

    @Test func bounds() throws {
        for number in 1...5 { #expect(try add("a", "\(number)") == nil) }
        #expect(try add("a", "6") == .full)
        for user in 1...15 { #expect(try add("u\(user)", "1") == nil) }
        #expect(try add("u1", "2") == .full)
        #expect(queue.userCount == 16)
        // Whoever has nothing waiting finds room still, up to a second bound.
        for user in 16...20 { #expect(try add("u\(user)", "1") == nil) }
        #expect(try add("last", "1") == .full)
        #expect(queue.userCount == 21)
        // What is under way does not wait.
        _ = next()
        #expect(try add("last", "1") == nil)
        #expect(removeWaiting().count == 25)
        #expect(queue.waitingCount == 0)
        #expect(queue.userCount == 1)
    }

    @Test func whatMayBeCommittedStays() throws {
        for key in ["a1", "a2"] { #expect(try add("a", key) == nil) }
        for user in ["b", "c"] { #expect(try add(user, "\(user)1") == nil) }
        let lost = try #require(next())
        let other = try #require(next())
        lost.losses += 1
        queue.again(lost)
        #expect(Set(removeWaiting(keepingLost: true).map(\.key)) == ["a2", "c1"])
        #expect(queue.waitingCount == 1)
        #expect(next() === lost)
        #expect(next() == nil)
        queue.done(lost)
        queue.done(other)
        #expect(queue.userCount == 0)
    }

    @Test func whatWaitedInVainIsTakenOut() throws {
        let later = start.advanced(by: .seconds(5))
        for key in ["a1", "a2"] { #expect(try add("a", key) == nil) }
        #expect(try add("a", "a3", at: later) == nil)
        #expect(try add("b", "b1") == nil)
        #expect(try add("c", "c1", at: later) == nil)
        let first = try #require(next())
        let end = start.advanced(by: .seconds(10))
        #expect(Set(expire(end).map(\.key)) == ["a1", "a2", "b1"])
        first.finish(.stopping(key: "a1"))
        #expect(expire(end).isEmpty)
        #expect(next()?.key == "c1")
        #expect(next() == nil)
        queue.done(first)
        #expect(next()?.key == "a3")
    }

    @Test func spellingsAreUsersOfTheirOwn() throws {
        #expect(try add("é", "1") == nil)
        #expect(try add("e\u{301}", "2") == nil)
        _ = next()
        #expect(next()?.key == "2")
        #expect(TextKey("a", "b") != TextKey("a"))
        #expect(TextKey("a", "b") != TextKey("ab"))
        #expect(TextKey("a", "b") == TextKey("a", "b"))
    }

    /// Whatever happens to actions, those of a user are done in their order, each once.
    @Test func anyHistoryKeepsTheOrder() throws {
        var random = SeededRandom()
        var done: [String: [Int]] = [:]
        var underWay: [Action] = []
        var last: [String: Int] = [:]
        func finish(_ action: Action) {
            let parts = action.key.split(separator: "/")
            done[String(parts[0]), default: []].append(Int(parts[1]) ?? -1)
        }
        for _ in 0..<5_000 {
            switch Int.random(in: 0..<8, using: &random) {
            case 0...2:
                let user = "u\(Int.random(in: 0..<8, using: &random))"
                let number = last[user, default: 0] + 1
                if try add(user, "\(user)/\(number)") == nil { last[user] = number }
            case 3, 4:
                if let action = Bool.random(using: &random) ? next() : nextSuspect() {
                    #expect(!underWay.contains { $0.line === action.line }, "seed \(random.seed)")
                    underWay.append(action)
                }
            case 5:
                guard let index = underWay.indices.randomElement(using: &random) else { continue }
                queue.again(underWay.remove(at: index))
            case 6:
                guard let index = underWay.indices.randomElement(using: &random) else { continue }
                let action = underWay.remove(at: index)
                queue.done(action, isDecided: Bool.random(using: &random))
                finish(action)
            default:
                guard Bool.random(using: &random), let index = underWay.indices.randomElement(using: &random) else {
                    continue
                }
                let action = underWay.remove(at: index)
                // Held for no time: what follows is taken at once.
                let rest = queue.hold(action, now: start, pause: .zero, .locked).rest
                for action in [action] + rest { finish(action) }
            }
        }
        for action in underWay {
            queue.done(action)
            finish(action)
        }
        while let action = next() ?? nextSuspect() {
            queue.done(action)
            finish(action)
        }
        _ = expire(start.advanced(by: StoreLimits.suspicionLasts))
        #expect(queue.userCount == 0)
        for (user, numbers) in done {
            #expect(numbers == Array(1...(last[user] ?? 0)), "\(user), seed \(random.seed)")
        }
    }
}
