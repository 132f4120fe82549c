import Clock
import Outbox
import Testing

@testable import Courier

@Suite struct PushTurnsTests {
    private func work(_ id: Int64, of user: String, at second: Double = 0) -> PushWork {
        var push = DuePush(id: id, attempt: 1, platform: .webhook, token: "t", leaseEnd: .second(60))
        push.userID = user
        return PushWork(push, at: .second(second))
    }

    /// Those that may go now, in flight from then on.
    private func depart(_ turns: inout PushTurns, of most: Int, at second: Double = 0) -> [PushWork] {
        var works: [PushWork] = []
        while let place = turns.next(of: most), let work = turns.work(at: place) {
            _ = turns.take(at: place, now: .second(second))
            turns.began(work, at: .second(second))
            works.append(work)
        }
        return works
    }

    @Test func usersTakeTurns() {
        var turns = PushTurns()
        for id in 1...3 { turns.append(work(Int64(id), of: "a")) }
        for id in 4...5 { turns.append(work(Int64(id), of: "b")) }
        turns.append(work(6, of: "c"))
        expect(depart(&turns, of: 100).map(\.push.id) == [1, 4, 6, 2, 5, 3])
        #expect(turns.isEmpty && turns.underWay == 6)
    }

    /// Of eight places one user has four, and the last two are for users who have none.
    @Test func oneUserWhoseRequestsHangHoldsUpNoOther() {
        var turns = PushTurns()
        for id in 1...800 { turns.append(work(Int64(id), of: "a")) }
        expect(depart(&turns, of: 8).map(\.push.id) == [1, 2, 3, 4])
        for id in 1001...1004 { turns.append(work(Int64(id), of: "b")) }
        expect(depart(&turns, of: 8).map(\.push.id) == [1001, 1002])
        turns.append(work(2001, of: "c"))
        turns.append(work(2002, of: "c"))
        expect(depart(&turns, of: 8).map(\.push.id) == [2001])
        turns.append(work(3001, of: "d"))
        turns.append(work(4001, of: "e"))
        expect(depart(&turns, of: 8).map(\.push.id) == [3001])
        #expect(turns.underWay == 8)
    }

    @Test func aPlaceThatIsFreeGoesToWhoHasNoneInFlight() {
        var turns = PushTurns()
        for id in 1...9 { turns.append(work(Int64(id), of: "a")) }
        let first = depart(&turns, of: 4)
        #expect(first.map(\.push.id) == [1, 2])
        turns.append(work(10, of: "b"))
        turns.ended(first[0], at: .second(1))
        expect(depart(&turns, of: 4, at: 1).map(\.push.id) == [10, 3])
    }

    @Test func aLonePlaceIsForAnybody() {
        var turns = PushTurns()
        for id in 1...2 { turns.append(work(Int64(id), of: "a")) }
        let first = depart(&turns, of: 1)
        #expect(first.map(\.push.id) == [1])
        turns.ended(first[0], at: .second(1))
        expect(depart(&turns, of: 1).map(\.push.id) == [2])
    }

    @Test func oneThatIsSentAgainGoesFirst() {
        var turns = PushTurns()
        for id in 1...3 { turns.append(work(Int64(id), of: "a")) }
        turns.append(work(4, of: "b"))
        let first = depart(&turns, of: 2)
        #expect(first.map(\.push.id) == [1, 4])
        turns.ended(first[0], at: .second(1))
        turns.prepend(first[0], at: .second(1))
        expect(depart(&turns, of: 2).map(\.push.id) == [1])
    }

    /// The time for which a user's own requests took the place does not count.
    @Test func itTellsForHowLongAUserWaitedForOthers() {
        var turns = PushTurns()
        turns.append(work(1, of: "a"))
        let first = depart(&turns, of: 1)
        turns.append(work(2, of: "a"))
        turns.append(work(3, of: "b", at: 1))
        turns.ended(first[0], at: .second(5))
        expect(turns.take(at: 0, now: .second(6)) == .seconds(1))
        expect(turns.take(at: 0, now: .second(6)) == .seconds(5))
    }

    @Test func allThatWaitComeOut() {
        var turns = PushTurns()
        for id in 1...3 { turns.append(work(Int64(id), of: "a")) }
        turns.append(work(4, of: "b"))
        var ids: [Int64] = []
        while let work = turns.pop() { ids.append(work.push.id) }
        #expect(ids == [1, 2, 3, 4] && turns.isEmpty)
    }
}
