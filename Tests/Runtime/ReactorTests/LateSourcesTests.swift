import Clock
import Glibc
import TestSupport
import Testing

@testable import Reactor

private final class Source: EventSource {
    /// The ticks at whose end it was written.
    var writes: [Int] = []
    var tick = 0

    override func tickEnded() { writes.append(tick) }
}

/// Marks another source when it is ready, and says that more will come for that.
private final class Caller: EventSource {
    let loop: EventLoop
    var marks: (EventLoop) -> Void = { _ in }

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    override func ready(_ readiness: Readiness) { marks(loop) }
}

@Suite(.ownThread) struct LateSourcesTests {
    /// A loop in whose ticks so many descriptors are ready, the last of which is the caller's.
    private final class Stage {
        let loop: EventLoop
        let caller: Caller
        let source = Source()
        private var descriptors: [Int32] = []

        init(ready: Int) throws {
            loop = try EventLoop()
            caller = Caller(loop)
            try loop.add(source)
            for number in 1...ready {
                // Nobody reads it, so it stays ready.
                var ends: [Int32] = [-1, -1]
                #expect(pipe(&ends) == 0 && write(ends[1], "1", 1) == 1)
                let descriptor = ends[0]
                descriptors += ends
                try loop.add(number == ready ? caller : Source(), descriptor: descriptor, interest: .readable)
            }
        }

        deinit { for descriptor in descriptors { close(descriptor) } }

        func tick(_ number: Int, _ marks: @escaping (EventLoop) -> Void = { _ in }) {
            source.tick = number
            caller.marks = marks
            loop.tick(waitingAtMost: .seconds(60))
        }

        func markLate(_ loop: EventLoop) {
            loop.markDirty(source)
            loop.late.append(source, of: loop)
        }
    }

    @Test func aBusyLoopWritesTwoTicksLater() throws {
        let stage = try Stage(ready: 32)
        stage.tick(0, stage.markLate)
        for number in 1...4 { stage.tick(number) }
        #expect(stage.source.writes == [2])
        stage.tick(5) { $0.markDirty(stage.source) }
        #expect(stage.source.writes == [2, 5], "it can be marked again")
    }

    @Test func marksMeanwhileChangeNothing() throws {
        let stage = try Stage(ready: 32)
        stage.tick(0, stage.markLate)
        for number in 1...4 { stage.tick(number, number < 3 ? stage.markLate : { _ in }) }
        #expect(stage.source.writes == [2])
    }

    @Test func aLoopThatIsNotBusyWritesAtOnce() throws {
        let stage = try Stage(ready: 31)
        stage.tick(0, stage.markLate)
        #expect(stage.source.writes == [0])
    }

    @Test func aLoopThatGetsQuietWritesWithoutSleeping() throws {
        let stage = try Stage(ready: 32)
        stage.tick(0, stage.markLate)
        stage.loop.setInterest(stage.caller, [])
        stage.tick(1)
        #expect(stage.source.writes == [1])
    }

    @Test func oneThatWasMarkedEarlierIsNotLate() throws {
        let stage = try Stage(ready: 32)
        let other = Source()
        try stage.loop.add(other)
        stage.tick(0) { loop in
            loop.markDirty(stage.source)
            loop.markDirty(other)
            loop.late.append(stage.source, of: loop)
        }
        #expect(stage.source.writes == [0])
    }

    @Test func oneThatHasGoneIsNotWrittenAndItsSlotsNextIsNotEither() throws {
        let stage = try Stage(ready: 32)
        let next = Source()
        stage.tick(0, stage.markLate)
        stage.tick(1) { loop in
            loop.remove(stage.source)
            do { try loop.add(next) } catch { Issue.record(error) }
        }
        for number in 2...4 { stage.tick(number) }
        #expect(stage.source.writes == [] && next.writes == [])
    }
}
