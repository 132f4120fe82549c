import Clock
import Reactor
import Testing

@testable import Store

@Suite(.timeLimit(.minutes(15))) struct FeedWakerTests {
    private var later: Instant { Instant.read().advanced(by: .seconds(10)) }

    @Test func aCommitWakesTheFeedAtOnce() throws {
        let loop = try EventLoop()
        var rings = 0
        let waker = try FeedWaker(loop) { rings += 1 }
        waker.tell(now: later, isCrowded: false)
        #expect(rings == 0, "nothing was committed")
        for count in 1...3 {
            waker.want()
            waker.tell(now: later, isCrowded: false)
            #expect(rings == count)
        }
        waker.tell(now: later, isCrowded: true)
        #expect(rings == 3, "told once")
    }

    @Test func aCrowdWakesTheFeedNowAndThen() throws {
        let loop = try EventLoop()
        var rings = 0
        let waker = try FeedWaker(loop) { rings += 1 }
        let began = later
        // A commit each millisecond.
        for time in 0..<100 {
            waker.want()
            waker.tell(now: began.advanced(by: .milliseconds(time)), isCrowded: true)
        }
        #expect(rings == 10)
    }

    @Test func theLastCommitOfACrowdWakesTheFeed() throws {
        let loop = try EventLoop()
        var rings = 0
        let waker = try FeedWaker(loop) { rings += 1 }
        let now = Instant.read()
        for _ in 0..<2 {
            waker.want()
            waker.tell(now: now, isCrowded: true)
        }
        #expect(rings == 1)
        let end = Instant.read().advanced(by: .seconds(60))
        while rings < 2, Instant.read() < end { loop.tick(waitingAtMost: .seconds(1)) }
        #expect(rings == 2, "the alarm rings, though nobody asks")
        loop.tick(waitingAtMost: .milliseconds(30))
        #expect(rings == 2)
    }
}
