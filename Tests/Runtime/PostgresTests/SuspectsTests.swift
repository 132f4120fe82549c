import Bytes
import Clock
import Testing

@testable import Postgres

/// Which users are held, and for how long.
@Suite struct SuspectsTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func hold(_ user: String, _ suspects: inout Suspects, at now: Instant? = nil) -> Duration? {
        suspects.hold(TextKey(user), at: now ?? start, pause: .milliseconds(300), .locked)
    }

    @Test func aUserIsHeldForATime() {
        var suspects = Suspects()
        #expect(suspects.isEmpty && suspects.hold(of: TextKey("a"), at: start) == nil)
        let pause = hold("a", &suspects)
        #expect(pause == .milliseconds(300))
        let held = suspects.hold(of: TextKey("a"), at: start.advanced(by: .milliseconds(100)))
        #expect(held?.pause == .milliseconds(200) && held?.reason == .locked)
        #expect(suspects.hold(of: TextKey("b"), at: start) == nil)
        // No longer held, but still a suspect.
        #expect(suspects.hold(of: TextKey("a"), at: start.advanced(by: .milliseconds(300))) == nil)
        #expect(suspects.contains(TextKey("a")) && !suspects.contains(TextKey("b")))
    }

    @Test func pausesGrowUntilTheDatabaseAnswers() {
        var suspects = Suspects()
        var pauses: [Duration?] = []
        for number in 0..<7 { pauses.append(hold("a", &suspects, at: start.advanced(by: .seconds(5 * number)))) }
        #expect(pauses == [300, 600, 1_200, 2_400, 4_800, 5_000, 5_000].map { .milliseconds($0) })
        let (was, again) = (suspects.acquit(TextKey("a")), suspects.acquit(TextKey("a")))
        #expect(was && !again && suspects.isEmpty)
        let first = hold("a", &suspects)
        #expect(first == .milliseconds(300))
    }

    @Test func aHeldUserIsForgottenInTime() {
        var suspects = Suspects()
        _ = hold("a", &suspects)
        _ = hold("b", &suspects)
        let end = start.advanced(by: .milliseconds(300))
        suspects.expire(at: end.advanced(by: PostgresLimits.suspicionLasts - .nanoseconds(1))) { _ in true }
        #expect(suspects.count == 2)
        // Not forgotten while one of their requests waits.
        suspects.expire(at: end.advanced(by: PostgresLimits.suspicionLasts)) { $0 == TextKey("a") }
        #expect(suspects.count == 1 && suspects.contains(TextKey("b")))
    }

    @Test func suspectsAreBounded() {
        var suspects = Suspects(usersMax: 3)
        for user in ["a", "b", "c"] { _ = hold(user, &suspects) }
        let (more, known) = (hold("d", &suspects), hold("a", &suspects))
        #expect(more == nil && known == .milliseconds(600) && suspects.count == 3)
    }
}
