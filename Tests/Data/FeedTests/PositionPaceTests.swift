import Clock
import Sync
import TestSupport
import Testing

@testable import Feed

@Suite struct PositionPaceTests {
    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: 1 << 40).advanced(by: .milliseconds(milliseconds))
    }

    @Test func aStreamThatComesAloneIsAskedAboutAtOnce() {
        var pace = PositionPace()
        pace.came(at: at(0))
        #expect(pace.rest(at: at(0)) == nil)
        pace.asked(1, at: at(0))
        pace.came(at: at(0))
        #expect(pace.rest(at: at(0)) == .milliseconds(2))
        #expect(pace.rest(at: at(2)) == nil)
    }

    @Test(arguments: [(1, 2), (20, 40), (249, 498), (250, 500), (1_000, 500)])
    func theRestIsAsLongAsTheQuery(_ count: Int, _ rest: Int) {
        var pace = PositionPace()
        pace.asked(count, at: at(0))
        // They come one by one for ever, each just before the rest would end for want of them.
        for time in 0..<rest {
            pace.came(at: at(time))
            #expect(pace.rest(at: at(time)) == min(.milliseconds(rest - time), FeedLimits.positionQuiet))
        }
        pace.came(at: at(rest))
        #expect(pace.rest(at: at(rest)) == nil)
    }

    @Test func theLastOfACrowdWaitForNobody() {
        var pace = PositionPace()
        pace.asked(1_000, at: at(0))
        pace.came(at: at(100))
        #expect(pace.rest(at: at(100)) == FeedLimits.positionQuiet)
        #expect(pace.rest(at: at(125)) == nil)
    }

    /// A crowd that comes within some seconds, at any pace above a thousand a second, is asked about 500 at a time or more.
    @Test(arguments: 0..<20 as Range<UInt64>) func aCrowdCostsFewQueries(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let count = 30_000
        let perMillisecond = Int.random(in: 2...40, using: &random)
        var pace = PositionPace()
        var (came, waiting, queries, time) = (0, 0, 0, 0)
        while came < count || waiting > 0 {
            let now = at(time)
            let more = min(count - came, Int.random(in: 0...2 * perMillisecond, using: &random))
            (came, waiting) = (came + more, waiting + more)
            if more > 0 { pace.came(at: now) }
            let isFull = waiting >= FeedLimits.positionsPerQuery
            if waiting > 0, isFull || pace.rest(at: now) == nil {
                let asked = min(waiting, FeedLimits.positionsPerQuery)
                pace.asked(asked, at: now)
                (waiting, queries) = (waiting - asked, queries + 1)
            }
            time += 1
        }
        // The first few are small.
        #expect(queries <= count / 500 + 12, "seed \(seed), \(perMillisecond) a millisecond")
    }
}

/// Whose positions are asked for first.
@Suite struct PositionTurnsTests {
    private func stream(_ user: String) -> StreamID { StreamID(user: user, topic: "t") }

    private func asked(_ tail: inout Tail, fewest: Int = 1) -> [String]? {
        guard case .positions(let tickets)? = tail.nextQuery([], fewestPositions: fewest) else { return nil }
        var outputs: [FeedOutput] = []
        try? tail.positionsReceived(tickets.map { _ in StreamPosition(epoch: "e", offset: 0) }, &outputs)
        return tickets.map(\.stream.user)
    }

    private func connected() -> Tail {
        var tail = Tail()
        tail.connected(snapshot: "s", epoch: "e")
        return tail
    }

    @Test func clientsThatAreBackGoFirst() {
        for isConnectedBefore in [true, false] {
            var tail = isConnectedBefore ? connected() : Tail()
            var outputs: [FeedOutput] = []
            for number in 0..<1_000 {
                tail.watch(stream("new\(number)"), serial: 1, &outputs)
                tail.watch(stream("back\(number)"), serial: 1, isBack: true, &outputs)
            }
            if !isConnectedBefore { tail.connected(snapshot: "s", epoch: "e") }
            let first = asked(&tail) ?? []
            #expect(first.count == FeedLimits.positionsPerQuery)
            #expect(first.count { $0.hasPrefix("back") } == FeedLimits.positionsPerQuery * 7 / 8)
            #expect(first.filter { $0.hasPrefix("back") } == (0..<875).map { "back\($0)" }, "in their order")
            #expect(first.filter { $0.hasPrefix("new") } == (0..<125).map { "new\($0)" })
            let second = asked(&tail) ?? []
            #expect(second.prefix(125) == ArraySlice((875..<1_000).map { "back\($0)" }))
            #expect(second.count == 1_000)
            #expect(asked(&tail) == nil)
        }
    }

    /// However many come back, a newcomer has its part of each query.
    @Test func nobodyWaitsForAllWhoAreBack() {
        var tail = connected()
        var outputs: [FeedOutput] = []
        for number in 0..<10_000 { tail.watch(stream("back\(number)"), serial: 1, isBack: true, &outputs) }
        for number in 0..<200 { tail.watch(stream("new\(number)"), serial: 1, &outputs) }
        #expect(asked(&tail)?.count { $0.hasPrefix("new") } == 125)
        #expect(asked(&tail)?.count { $0.hasPrefix("new") } == 75)
    }

    @Test func fewerThanWantedWait() {
        var tail = connected()
        var outputs: [FeedOutput] = []
        for number in 0..<9 { tail.watch(stream("u\(number)"), serial: 1, &outputs) }
        #expect(asked(&tail, fewest: 10) == nil)
        tail.watch(stream("u9"), serial: 1, isBack: true, &outputs)
        #expect(asked(&tail, fewest: 10)?.count == 10)
        // Other reads do not wait for them.
        tail.watch(stream("late"), serial: 1, &outputs)
        tail.wake()
        #expect(tail.nextQuery([.tail], fewestPositions: 10) == .tail(previous: "s"))
    }

    /// Against a model: each query takes the others' part first, then who is back, then the rest.
    @Test(arguments: 0..<20 as Range<UInt64>) func turnsAreThoseOfTheModel(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var tail = connected()
        var outputs: [FeedOutput] = []
        var (back, new): ([String], [String]) = ([], [])
        var number = 0
        for _ in 0..<40 {
            for _ in 0..<Int.random(in: 0...1_500, using: &random) {
                number += 1
                let isBack = Bool.random(using: &random)
                tail.watch(stream("u\(number)"), serial: 1, isBack: isBack, &outputs)
                if isBack { back.append("u\(number)") } else { new.append("u\(number)") }
            }
            let most = FeedLimits.positionsPerQuery - min(new.count, 125)
            var expected = Array(back.prefix(most))
            back.removeFirst(expected.count)
            let ofNew = new.prefix(FeedLimits.positionsPerQuery - expected.count)
            expected += ofNew
            new.removeFirst(ofNew.count)
            let more = back.prefix(FeedLimits.positionsPerQuery - expected.count)
            expected += more
            back.removeFirst(more.count)
            #expect(asked(&tail) ?? [] == expected, "seed \(seed)")
        }
    }
}
