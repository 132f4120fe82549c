import Bytes
import Clock
import Reactor
import Testing

@testable import Store

/// The counts of failing actions.
@Suite(.timeLimit(.minutes(15)))
struct FailingActionsTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    /// A moment after `start`.
    private func moment(_ milliseconds: Int64) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }

    /// Counts a failure of `action`, and expects it to be hopeless or not.
    private func expect(
        _ isHopeless: Bool, _ action: TextKey, _ now: Instant, _ failing: inout FailingActions,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let found = failing.failed(action, now: now)
        #expect(found == isHopeless, sourceLocation: sourceLocation)
    }

    @Test func failuresAreCountedByAction() {
        var failing = FailingActions()
        failing.applied(now: moment(1))
        for step in 0..<4 as Range<Int64> {
            for user in ["ann", "bob", "cat"] {
                expect(false, TextKey(user, "k"), moment(step * 900), &failing)
            }
        }
        failing.decided(TextKey("ann", "k"))
        failing.decided(TextKey("ann", "unknown"))
        expect(true, TextKey("bob", "k"), moment(3_000), &failing)
        expect(true, TextKey("bob", "k"), moment(3_001), &failing)
        // Often enough but not for long enough; decided meanwhile; another action.
        expect(false, TextKey("cat", "k"), moment(2_999), &failing)
        expect(false, TextKey("ann", "k"), moment(9_000), &failing)
        expect(false, TextKey("bobk"), moment(9_000), &failing)
    }

    /// If nothing is applied meanwhile, all may have the same trouble.
    @Test func whereNothingSucceedsThereIsMoreTime() {
        var failing = FailingActions()
        failing.applied(now: moment(-1))
        for step in 0...4 as ClosedRange<Int64> {
            for user in ["ann", "bob"] { expect(false, TextKey(user, "k"), moment(step * 2_000), &failing) }
        }
        expect(false, TextKey("ann", "k"), moment(29_999), &failing)
        expect(true, TextKey("ann", "k"), moment(30_000), &failing)
        var copy = failing
        // An action applied before the first failure proves nothing; one applied after it does.
        copy.applied(now: start)
        expect(false, TextKey("bob", "k"), moment(10_000), &copy)
        failing.applied(now: moment(1))
        expect(true, TextKey("bob", "k"), moment(10_000), &failing)
    }

    /// An error that blames the server is no action's own, however often it comes, unless others are applied meanwhile.
    @Test func aServersErrorIsBlamedOnAnActionOnlyBesideSuccesses() {
        var failing = FailingActions()
        func isBlamed(at moment: Instant, _ failing: inout FailingActions) -> Bool {
            failing.failed(TextKey("ann", "k"), mayBeServer: true, now: moment)
        }
        let found = (0..<100 as Range<Int64>).map { isBlamed(at: moment($0 * 1_000), &failing) }
        #expect(!found.contains(true))
        failing.applied(now: moment(50_000))
        let later = isBlamed(at: moment(100_000), &failing)
        #expect(later)
        var early = FailingActions()
        let before = (0..<10 as Range<Int64>).map { step in
            early.applied(now: moment(step * 3_300 + 1))
            return isBlamed(at: moment(step * 3_300), &early)
        }
        #expect(!before.contains(true), "29.7 seconds")
        let after = isBlamed(at: moment(30_000), &early)
        #expect(after)
    }

    @Test func whatFailedLongAgoBeginsAnew() {
        var failing = FailingActions()
        for _ in 0..<4 { expect(false, TextKey("ann", "k"), start, &failing) }
        var copy = failing
        let late = start.advanced(by: StoreLimits.failureLasts)
        expect(true, TextKey("ann", "k"), start.advanced(by: StoreLimits.failureLasts - .nanoseconds(1)), &failing)
        expect(false, TextKey("ann", "k"), late, &copy)
    }

    /// At the bound and one past it: a failure that cannot be remembered is not counted; expiry makes room.
    @Test func onlySoManyAreRemembered() {
        var failing = FailingActions(actionsMax: 2)
        func isHopeless(_ key: String, _ failing: inout FailingActions, after moments: [Instant]) -> Bool {
            moments.reduce(false) { failing.failed(TextKey("ann", key), now: $1) || $0 }
        }
        let often = (0..<6 as Range<Int64>).map { moment($0 * 10_000) }
        let found = ["a", "b", "c"].map { isHopeless($0, &failing, after: often) }
        #expect(found == [true, true, false])
        #expect(failing.count == 2)
        let late = often.map { $0.advanced(by: StoreLimits.failureLasts).advanced(by: .seconds(60)) }
        let later = isHopeless("c", &failing, after: late)
        #expect(later)
        #expect(failing.count == 1)
    }
}
