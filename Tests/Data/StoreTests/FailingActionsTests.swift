import Bytes
import Clock
import Postgres
import Reactor
import TestDatabase
import Testing

@testable import Store

/// The counts of actions that fail, and the table of what failures mean.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct FailingActionsTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    /// A moment after `start`.
    private func moment(_ milliseconds: Int64) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }

    /// A failure of `action`, after which it is hopeless, or not.
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
        for place in 0..<4 as Range<Int64> {
            for user in ["ann", "bob", "cat"] {
                expect(false, TextKey(user, "k"), moment(place * 900), &failing)
            }
        }
        failing.decided(TextKey("ann", "k"))
        failing.decided(TextKey("ann", "unknown"))
        expect(true, TextKey("bob", "k"), moment(3_000), &failing)
        expect(true, TextKey("bob", "k"), moment(3_001), &failing)
        // Often enough, and not for long enough; decided meanwhile; another.
        expect(false, TextKey("cat", "k"), moment(2_999), &failing)
        expect(false, TextKey("ann", "k"), moment(9_000), &failing)
        expect(false, TextKey("bobk"), moment(9_000), &failing)
    }

    /// Where nothing is applied meanwhile, the trouble may be everybody's.
    @Test func whereNothingSucceedsThereIsMoreTime() {
        var failing = FailingActions()
        failing.applied(now: moment(-1))
        for place in 0...4 as ClosedRange<Int64> {
            for user in ["ann", "bob"] { expect(false, TextKey(user, "k"), moment(place * 2_000), &failing) }
        }
        expect(false, TextKey("ann", "k"), moment(29_999), &failing)
        expect(true, TextKey("ann", "k"), moment(30_000), &failing)
        var copy = failing
        // What was applied before the first failure says nothing, and what was applied after it does.
        copy.applied(now: start)
        expect(false, TextKey("bob", "k"), moment(10_000), &copy)
        failing.applied(now: moment(1))
        expect(true, TextKey("bob", "k"), moment(10_000), &failing)
    }

    /// What speaks of the server is blamed on no action, however often it comes, unless others are applied all the while.
    @Test func whatSpeaksOfTheServerIsTheActionsOwnOnlyBesideOthers() {
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
        let before = (0..<10 as Range<Int64>).map { place in
            early.applied(now: moment(place * 3_300 + 1))
            return isBlamed(at: moment(place * 3_300), &early)
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

    /// At the bound and one past it: what is not remembered is not counted, and room comes with time.
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

    @Test(arguments: [
        ("40001", "again"), ("40P01", "again"), ("40002", "again"), ("26000", "outdated"), ("0A000", "outdated"),
        ("55P03", "locked"), ("23505", "constraint"), ("23514", "constraint"), ("P0001", "refused"),
        ("25006", "readOnly"), ("08006", "unavailable"), ("08P01", "unavailable"), ("57P01", "unavailable"),
        ("57P03", "unavailable"), ("57014", "failed"), ("57000", "failed"), ("53100", "failed"), ("53300", "failed"),
        ("58030", "failed"), ("58P01", "failed"), ("F0000", "failed"), ("XX001", "failed"), ("XX002", "failed"),
        ("25P03", "failed"), ("25P04", "failed"), ("HV00N", "failed"), ("XX000", "broken"), ("P0002", "broken"),
        ("P0004", "broken"), ("22012", "broken"), ("21000", "broken"), ("25001", "broken"), ("2D000", "broken"),
        ("38000", "broken"), ("39004", "broken"), ("42501", "broken"), ("42703", "broken"), ("44000", "broken"),
        ("54001", "broken"), ("55000", "broken"), ("0LP01", "broken"), ("01000", "broken"), ("45000", "broken"),
        ("ZZ999", "broken"), ("00000", "broken"),
    ])
    func whatAFailureMeans(_ code: String, _ meaning: String) {
        #expect("\(Verdict.verdict(sqlstate: code))" == meaning)
    }

    /// The hub's own statement cannot be run, by a right that is missing or a function that is not there: no action is
    /// judged by that.
    @Test func whatIsBrokenIsInAFunction() throws {
        let connection = try BlockingConnection(Cluster.shared.get().database().hub)
        func meaning(_ sql: String) -> String {
            do {
                _ = try connection.query(sql)
                return "nothing"
            } catch {
                return "\(Verdict(.failure(error.reason)))"
            }
        }
        #expect(meaning("SELECT sync.apply(1)") == "failed")
        #expect(meaning("SELECT sync.new_epoch()") == "failed")
        #expect(meaning("SELECT sync.retain(0, 0)") == "broken")
        #expect(meaning("DO $$ BEGIN PERFORM 1 / 0; END $$") == "broken")
    }
}
