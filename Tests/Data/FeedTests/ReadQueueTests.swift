import Clock
import Feed
import Sync
import TestSupport
import Testing

/// The queue of reads: bounded, in order, lost reads first, each answered once.
@Suite(.timeLimit(.minutes(15))) struct ReadQueueTests {
    private func read(_ number: Int) -> StreamRead {
        StreamRead(
            stream: StreamID(user: "u\(number)", topic: "t"), watch: 1, epoch: Epoch("e"), after: Int64(number),
            upTo: 1_000)
    }

    /// A read of that user's, a confirmation or a page.
    private func read(_ user: String, _ number: Int, isPage: Bool = true) -> StreamRead {
        StreamRead(
            stream: StreamID(user: user, topic: "t"), watch: 1, epoch: Epoch("e"), after: Int64(number),
            upTo: isPage ? 1 << 40 : Int64(number))
    }

    private func numbers(_ turns: [ReadQueue.Turn]) -> [Int64] { turns.map(\.read.after) }

    private func take(_ count: Int, from queue: inout ReadQueue) -> [ReadQueue.Turn] {
        (0..<count).compactMap { _ in queue.next { _ in true } }
    }

    @Test func bounds() {
        var queue = ReadQueue(readsMax: 3, depth: 2)
        for number in 0..<3 { #expect(queue.append(read(number), at: .zero) == true) }
        #expect(queue.append(read(3), at: .zero) == false)
        let turns = take(3, from: &queue)
        #expect(numbers(turns) == [0, 1])
        #expect(!queue.wantsTurn)
        // Those under way count.
        #expect(queue.append(read(3), at: .zero) == false)
        queue.done(turns[1])
        #expect(queue.append(read(3), at: .zero) == true)
        #expect(numbers(take(3, from: &queue)) == [2])
    }

    @Test func whatWasLostComesFirstInItsOrder() {
        var queue = ReadQueue(depth: 3)
        for number in 0..<5 { _ = queue.append(read(number), at: .zero) }
        let first = take(3, from: &queue)
        queue.done(first[1])
        #expect(queue.lost() == [])
        #expect(numbers(take(3, from: &queue)) == [0, 2, 3])
        #expect(queue.lost() == [])
        #expect(numbers(take(3, from: &queue)) == [0, 2, 3])
        #expect(queue.count == 4)
        // An answer to what was lost finds nothing.
        queue.done(first[0])
        #expect(queue.failed(first[2]) == true)
        #expect(queue.count == 4)
    }

    @Test func whatWaitedTooLongIsTakenOut() {
        var queue = ReadQueue(depth: 2)
        for number in 0..<6 { _ = queue.append(read(number), at: .seconds(number)) }
        _ = take(2, from: &queue)
        #expect(queue.expire(askedUpTo: .seconds(-1)) == [])
        // Those under way stay: their answers are on their way.
        #expect(queue.expire(askedUpTo: .seconds(3)) == [read(2), read(3)])
        #expect(queue.count == 4)
        _ = queue.lost()
        #expect(queue.expire(askedUpTo: .seconds(0)) == [read(0)])
        #expect(numbers(take(2, from: &queue)) == [1, 4])
        #expect(queue.expire(askedUpTo: .seconds(9)) == [read(5)])
        #expect(!queue.isAnyWaiting)
    }

    @Test func failuresOfOneReadAreItsOwn() throws {
        var queue = ReadQueue(depth: 2)
        for number in 0..<2 { _ = queue.append(read(number), at: .zero) }
        for failure in 1...FeedLimits.readFailuresMax {
            let turns = take(2, from: &queue)
            let bad = try #require(turns.first { $0.read.after == 0 })
            #expect(turns.count == 2)
            #expect(queue.failed(bad) == (failure < FeedLimits.readFailuresMax))
            // The other has failed never: it was lost with its connection.
            #expect(queue.lost() == [])
        }
        #expect(numbers(take(2, from: &queue)) == [1])
    }

    @Test func aReadUnderWhichEveryConnectionIsLostEnds() {
        var queue = ReadQueue()
        _ = queue.append(read(7), at: .zero)
        for _ in 1..<FeedLimits.readLossesMax {
            _ = take(1, from: &queue)
            #expect(queue.lost() == [])
        }
        _ = take(1, from: &queue)
        #expect(queue.lost() == [read(7)])
        #expect(queue.count == 0)
    }

    @Test func whatNobodyWantsIsDropped() {
        var queue = ReadQueue()
        for number in 0..<10 { _ = queue.append(read(number), at: .zero) }
        let turn = queue.next { $0.after == 6 }
        #expect(turn?.read == read(6))
        #expect(queue.count == 4)
    }

    // MARK: Shares

    /// However much one asks, or three who act together: another's page is among the next, and is not refused.
    @Test(arguments: [1, 3])
    func aFloodOfOneUserDelaysNobody(_ flooders: Int) {
        var queue = ReadQueue()
        var refused = 0
        for number in 0..<FeedLimits.readsMax * 2 {
            for flooder in 0..<flooders where !queue.append(read("flood\(flooder)", number), at: .zero) { refused += 1 }
        }
        #expect(queue.count == flooders * FeedLimits.readsPerUserMax)
        #expect(refused > FeedLimits.readsMax)
        let flood = take(FeedLimits.readDepth, from: &queue)
        #expect(queue.append(read("ann", 1), at: .zero) == true)
        #expect(queue.append(read("bob", 1), at: .zero) == true)
        for turn in flood { queue.done(turn) }
        let next = take(FeedLimits.readDepth, from: &queue)
        #expect(Set(next.prefix(flooders + 2).map(\.read.stream.user)).isSuperset(of: ["ann", "bob"]))
    }

    @Test func aShareIsFreedWithEachAnswer() {
        var queue = ReadQueue(readsMax: 10, readsPerUserMax: 2, depth: 4)
        for number in 0..<2 { #expect(queue.append(read("ann", number), at: .zero) == true) }
        #expect(queue.append(read("ann", 2), at: .zero) == false)
        #expect(queue.append(read("bob", 0), at: .zero) == true)
        // Those under way count, and those that were lost with their connection.
        _ = take(3, from: &queue)
        #expect(queue.append(read("ann", 2), at: .zero) == false)
        _ = queue.lost()
        #expect(queue.append(read("ann", 2), at: .zero) == false)
        for turn in take(3, from: &queue) where turn.read.stream.user == "ann" && turn.read.after == 0 {
            queue.done(turn)
        }
        #expect(queue.append(read("ann", 2), at: .zero) == true)
        #expect(queue.append(read("ann", 3), at: .zero) == false)
        // One that is not wanted any more, and those that waited too long.
        #expect(queue.next { $0.after != 2 } == nil)
        #expect(queue.append(read("ann", 3), at: .zero) == true)
        #expect(queue.expire(askedUpTo: .zero) == [read("ann", 3)])
        #expect(queue.append(read("ann", 4), at: .zero) == true)
    }

    @Test func pagesGoBeforeConfirmationsAndDoNotStarveThem() {
        var queue = ReadQueue(depth: 1)
        for number in 0..<3 { _ = queue.append(read("ann", number, isPage: false), at: .zero) }
        for number in 10..<40 { _ = queue.append(read("user \(number)", number), at: .zero) }
        var order: [Int64] = []
        while let turn = queue.next(where: { _ in true }) {
            order.append(turn.read.after)
            queue.done(turn)
        }
        #expect(order.count == 33)
        #expect(order.prefix(7).allSatisfy { $0 >= 10 })
        #expect(order.enumerated().filter { $0.element < 3 }.map(\.offset) == [7, 15, 23])
    }

    @Test func usersAreServedInTurnsAndEachInOrder() {
        var queue = ReadQueue(depth: 100)
        for number in 0..<4 { _ = queue.append(read("ann", number), at: .zero) }
        for number in 10..<12 { _ = queue.append(read("bob", number), at: .zero) }
        _ = queue.append(read("eve", 20), at: .zero)
        #expect(numbers(take(10, from: &queue)) == [0, 10, 20, 1, 11, 2, 3])
    }

    /// Whatever happens, every read is answered once, and memory is what the reads take.
    @Test func histories() {
        var random = SeededRandom()
        var queue = ReadQueue(readsMax: 50, readsPerUserMax: 20, depth: 4)
        var open: Set<Int64> = []
        var users: [Int64: String] = [:]
        var underWay: [ReadQueue.Turn] = []
        for number in 0..<20_000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let user = ["a", "a", "a", "b", "c"].randomElement(using: &random) ?? ""
                let read = read(user, number, isPage: Bool.random(using: &random))
                let isFull = open.count == 50 || open.count { users[$0] == user } == 20
                #expect(queue.append(read, at: .seconds(number)) == !isFull)
                if !isFull { open.insert(Int64(number)) }
                users[Int64(number)] = user
            case 9 where Int.random(in: 0..<8, using: &random) == 0:
                for read in queue.expire(askedUpTo: .seconds(number - 60)) {
                    #expect(open.remove(read.after) != nil)
                }
            case 4..<7:
                if let turn = queue.next(where: { _ in true }) { underWay.append(turn) }
            case 7, 8:
                guard let turn = underWay.randomElement(using: &random) else { break }
                underWay.removeAll { $0 == turn }
                if Int.random(in: 0..<4, using: &random) > 0 {
                    queue.done(turn)
                    #expect(open.remove(turn.read.after) != nil)
                } else if !queue.failed(turn) {
                    #expect(open.remove(turn.read.after) != nil)
                }
            default:
                for read in queue.lost() { #expect(open.remove(read.after) != nil) }
                underWay = []
            }
            if queue.count != open.count || queue.count > 50 {
                return #expect(Bool(false), "\(queue.count) queued, \(open.count) open; CARILLON_SEED=\(random.seed)")
            }
        }
    }
}

/// When revocations are read, and from where.
@Suite(.timeLimit(.minutes(15))) struct RevocationTailTests {
    private func page(_ users: String...) -> [Revocation] { users.map { Revocation(userID: $0, before: 1) } }

    private func query(_ tail: inout RevocationTail, at milliseconds: Int = 0) -> [String?]? {
        tail.nextQuery(at: Instant(nanoseconds: 1).advanced(by: .milliseconds(milliseconds)))
            .map { [$0.previous, $0.after] }
    }

    @Test func allOnConnectThenWhatIsNew() {
        var tail = RevocationTail(pageRows: 2)
        tail.wake()
        #expect(query(&tail) == nil)
        tail.connected()
        #expect(query(&tail) == [nil, nil])
        #expect(query(&tail) == nil)
        tail.received(page("a", "b"), snapshot: "s1")
        #expect(tail.isAmidRead)
        #expect(!tail.isComplete)
        #expect(query(&tail) == [nil, "b"])
        #expect(tail.isBusy)
        tail.received(page("c"), snapshot: "s2")
        #expect(!tail.isBusy)
        #expect(tail.isComplete)
        #expect(query(&tail) == nil)
        tail.wake()
        // What a later page could see may belong to users whose pages were past.
        #expect(query(&tail) == ["s1", nil])
        tail.received([], snapshot: "s3")
        tail.wake()
        #expect(query(&tail) == ["s3", nil])
    }

    @Test func aWakeWhileReadingReadsAgain() {
        var tail = RevocationTail()
        tail.connected()
        _ = query(&tail)
        tail.wake()
        tail.received([], snapshot: "s1")
        #expect(query(&tail) == ["s1", nil])
    }

    @Test func aNewConnectionBeginsAnew() {
        var tail = RevocationTail(pageRows: 1)
        tail.connected()
        _ = query(&tail)
        tail.received(page("a"), snapshot: "s1")
        tail.disconnected()
        #expect(query(&tail) == nil)
        tail.connected()
        #expect(query(&tail) == [nil, nil])
        tail.received([], snapshot: "s2")
        #expect(tail.isComplete)
        tail.disconnected()
        #expect(!tail.isComplete)
    }

    /// Every commit of anything wakes; what has begun goes on at once.
    @Test func looksAreAnIntervalApart() {
        var tail = RevocationTail(pageRows: 1, interval: .milliseconds(250))
        tail.connected()
        #expect(query(&tail, at: 1_000) == [nil, nil])
        tail.received(page("a"), snapshot: "s1")
        #expect(query(&tail, at: 1_001) == [nil, "a"])
        tail.received([], snapshot: "s2")
        tail.wake()
        #expect(query(&tail, at: 1_250) == nil)
        #expect(tail.pause(at: Instant(nanoseconds: 1).advanced(by: .milliseconds(1_250))) == .milliseconds(1))
        #expect(query(&tail, at: 1_251) == ["s1", nil])
        tail.received(page("b"), snapshot: "s3")
        #expect(query(&tail, at: 1_251) == ["s1", "b"])
        tail.disconnected()
        tail.connected()
        #expect(query(&tail, at: 1_252) == [nil, nil])
    }
}
