import Clock
import Reactor
import Testing

@testable import Store

@Suite(.timeLimit(.minutes(15))) struct AnnouncerTests {
    private var later: Instant { Instant.read().advanced(by: .seconds(10)) }

    @Test func aCommitIsToldAtOnce() throws {
        let loop = try EventLoop()
        var rings = 0
        let feed = try Announcer(loop) {
            rings += 1
            return .told
        }
        feed.tell(now: later)
        #expect(rings == 0, "nothing was committed")
        for count in 1...3 {
            feed.tell(1, now: later)
            #expect(rings == count)
        }
        feed.tell(now: later, isCrowded: true)
        #expect(rings == 3, "told once")
    }

    @Test func aCrowdIsToldOfNowAndThen() throws {
        let loop = try EventLoop()
        var rings = 0
        let feed = try Announcer(loop) {
            rings += 1
            return .told
        }
        let began = later
        // A commit each millisecond.
        for time in 0..<100 {
            feed.tell(1, now: began.advanced(by: .milliseconds(time)), isCrowded: true)
        }
        #expect(rings == 10)
    }

    @Test func theLastCommitOfACrowdIsTold() throws {
        let loop = try EventLoop()
        var rings = 0
        let feed = try Announcer(loop) {
            rings += 1
            return .told
        }
        let now = Instant.read()
        for _ in 0..<2 {
            feed.tell(1, now: now, isCrowded: true)
        }
        #expect(rings == 1)
        let end = Instant.read().advanced(by: .seconds(60))
        while rings < 2, Instant.read() < end { loop.tick(waitingAtMost: .seconds(1)) }
        #expect(rings == 2, "the alarm rings, though nobody asks")
        loop.tick(waitingAtMost: .milliseconds(30))
        #expect(rings == 2)
    }

    @Test func oneAnnouncementIsUnderWayAtATime() throws {
        let loop = try EventLoop()
        var outcomes: [Announcer.Outcome] = [.failed, .underWay, .underWay]
        let announcer = try Announcer(loop) { outcomes.removeFirst() }
        announcer.tell(1, now: later)
        #expect(outcomes.count == 2 && !announcer.isQuiet, "nobody could be told: still wanted")
        announcer.tell(now: later)
        #expect(outcomes.count == 1)
        announcer.tell(1, now: later)
        #expect(outcomes.count == 1, "one is under way")
        announcer.done(true)
        #expect(!announcer.isQuiet, "what was committed meanwhile")
        announcer.tell(now: later)
        #expect(outcomes.isEmpty)
        announcer.done(false)
        #expect(!announcer.isQuiet, "it was lost")
    }
}
