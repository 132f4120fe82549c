import TestSupport
import Testing

@testable import Reactor

/// What connections to servers share: pauses between attempts, and what the log is told of an outage.
@Suite(.timeLimit(.minutes(15))) struct ReconnectingTests {
    @Test func pausesGrowWithinTheirBounds() {
        var random = SeededRandom()
        var backoff = Backoff()
        var longest = Duration.zero
        var previous = Duration.milliseconds(100)
        for _ in 0..<200 {
            let pause = backoff.next(using: &random)
            #expect(pause >= .milliseconds(100) && pause <= .seconds(10), "CARILLON_SEED=\(random.seed)")
            #expect(pause <= previous * 3, "CARILLON_SEED=\(random.seed)")
            (previous, longest) = (pause, max(longest, pause))
        }
        #expect(longest > .seconds(2), "CARILLON_SEED=\(random.seed)")
        backoff.reset()
        #expect(backoff.next(using: &random) <= .milliseconds(300))
    }

    @Test func textsAreBounded() {
        let complaints = LogDeduplicator()
        for number in 0..<LogDeduplicator.textsMax { #expect(complaints.isNew("\(number)", of: "c")) }
        #expect(!complaints.isNew("0", of: "c"))
        #expect(complaints.isNew("one more", of: "c"))
        #expect(complaints.isNew("0", of: "c"), "all was forgotten")
    }
}
