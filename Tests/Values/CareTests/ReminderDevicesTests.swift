import Care
import TestSupport
import Testing

/// Three devices without a network for most of a week end equal, and each conflict is shown once.
///
/// `CARILLON_WEEKS` says how many weeks: `CARILLON_WEEKS=10000 swift test --filter ReminderDevicesTests`.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct ReminderDevicesTests {
    static let weeks = Int(Environment.number("CARILLON_WEEKS") ?? 1_500)

    @Test func weeksOfThreeDevicesEndEqual() {
        var random = SeededRandom()
        var counts: [String: Int] = [:]
        for _ in 0..<Self.weeks {
            let seed = random.next()
            var week = ReminderWeek(seed: seed)
            week.run()
            counts.merge(week.counts) { $0 + $1 }
            guard week.faults.isEmpty else {
                Issue.record("CARILLON_SEED=\(random.seed), week \(seed): \(week.faults.joined(separator: "\n"))")
                return
            }
        }
        // The weeks are no idle ones.
        for name in ["applied", "noop", "conflict", "keep_local", "accept_server", "merge"] {
            #expect(counts[name, default: 0] > Self.weeks / 4, "\(name): \(counts)")
        }
    }
}
