import Bytes
import Clock
import HubEngine
import Sync
import Testing

/// Pages that no client requested, while the log is unavailable: events read late are not lost.
@Suite(.timeLimit(.minutes(15))) struct PausedReadTests {
    private let stream = StreamID(user: "u", topic: "adherence")
    private let channel = "user.u.adherence"
    private let world: LoopWorld

    init() {
        var limits = StreamLimits()
        limits.windowEvents = 4
        limits.pageEvents = 3
        limits.replayEvents = 50
        limits.readPause = .seconds(1)
        limits.readPauseMax = .seconds(8)
        world = LoopWorld(loops: 2, limits: limits)
        world.feed.pageEvents = 3
        world.now = 1_000_000_000_000
    }

    private func device(_ slot: UInt32, loop: Int = 1) throws -> LoopWorld.Wire {
        let wire = world.connect(loop, slot: slot)
        try world.signin(wire)
        return wire
    }

    /// A device that has read too little, while its next page is being read.
    private func slowDevice(_ slot: UInt32 = 0, events: Int = 30) throws -> LoopWorld.Wire {
        let wire = try device(slot)
        try world.subscribe(channel, wire)
        world.settle()
        for _ in 0..<events {
            world.feed.commit(stream)
            world.settle()
        }
        #expect(wire.session.isBehind)
        _ = world.read(1_000, wire)
        world.settleButForReads()
        #expect(world.feed.reads.count == 1)
        return wire
    }

    private func offsets(_ texts: [String]) -> [Int64] {
        texts.compactMap { text in
            guard text.hasPrefix(#"{"event":"x""#), let slash = text.lastIndex(of: "/") else { return nil }
            return Int64(text[text.index(after: slash)...].prefix { $0.isNumber })
        }
    }

    /// What the device reads until nothing more comes.
    private func rest(_ wire: LoopWorld.Wire) -> [String] {
        var texts: [String] = []
        repeat {
            world.settle()
            texts += world.read(2, wire)
        } while !wire.queue.isEmpty || wire.session.isBehind
        return texts
    }

    private func fail(_ failure: StreamReadFailure = .busy) {
        world.feedReads(failure: failure)
        world.settleButForReads()
    }

    /// The shard's next pause ends.
    private func pass() throws {
        world.now = try #require(world.shard.nextPauseEnd)
        world.endPauses()
        world.settleButForReads()
    }

    @Test func busyIsNoAnswerToAPageThatNobodyAskedFor() throws {
        let wire = try slowDevice()
        let first = try #require(world.feed.reads.first)
        for _ in 0..<5 {
            fail()
            #expect(world.feed.reads.isEmpty, "it is not asked for at once")
            #expect(wire.queue.isEmpty, "the device hears nothing of it")
            try pass()
            #expect(world.feed.reads == [first], "the same page, once")
        }
        let texts = rest(wire)
        #expect(!texts.contains { $0.contains("sync:resumed") })
        #expect(offsets(texts) == Array(first.after + 1...30))
        world.feed.commit(stream)
        world.settle()
        #expect(offsets(world.read(10, wire)) == [31], "and live from there")
        #expect(world.shard.nextPauseEnd == nil)
    }

    @Test func pausesGrowUpToABoundAndBeginAnewAfterAnAnswer() throws {
        let wire = try slowDevice()
        func pause() throws -> Double {
            fail()
            let seconds = Double(try #require(world.shard.nextPauseEnd) - world.now) / 1e9
            try pass()
            return seconds
        }
        for length in [1.0, 2, 4, 8, 8, 8] {
            let seconds = try pause()
            #expect(seconds >= length / 2 && seconds <= length * 1.5, "\(seconds)")
        }
        world.feedReads()
        world.settleButForReads()
        _ = world.read(1_000, wire)
        world.settleButForReads()
        #expect(world.feed.reads.count == 1)
        let seconds = try pause()
        #expect(seconds <= 1.5)
    }

    /// Pauses of streams that failed together end at different times: after half a pause to one and a half, at a 50 ms step
    /// that all streams share. Each step in that range is used by its share of the streams, none outside.
    @Test(arguments: [0, 1, 12_345_678, 49_999_999] as [UInt64]) func pausesAreSpread(_ sinceAStep: UInt64) throws {
        let count = 2_000
        let step: UInt64 = 50_000_000
        let now = 5_000_000_000 + sinceAStep
        let range = now + 500_000_000...now + 1_500_000_000
        var shard = StreamShard(limits: world.limits)
        var effects: ContiguousArray<StreamShard.Effect> = []
        for number in 0..<UInt32(count) {
            let stream = StreamID(user: "u\(number)", topic: "t")
            let name = StreamName(form: .user, stream: stream)
            let session = SessionID(slot: number, generation: 1)
            shard.join(StreamJoin(name: name, session: session, serial: 1), from: 0, &effects)
            shard.positioned(stream, at: StreamPosition(epoch: "e", offset: 9), watch: number + 1, &effects)
            let position = StreamPosition(epoch: "e", offset: 1)
            shard.join(
                StreamJoin(name: name, session: session, serial: 2, purpose: .next(after: position)), from: 0, &effects)
            guard case .read(let read)? = effects.last else { throw Missing() }
            shard.unreadable(read, .busy, now: Instant(nanoseconds: now), &effects)
        }
        var ended: [UInt64: Int] = [:]
        while let due = shard.nextPauseEnd {
            #expect(due.nanoseconds % step == 0)
            effects = []
            shard.endPauses(now: due - 1, &effects)
            #expect(effects.isEmpty)
            shard.endPauses(now: due, &effects)
            ended[due.nanoseconds] = effects.count
        }
        #expect(ended.values.reduce(0, +) == count)
        // Pauses that would end in the 50 ms before a step end at the step.
        for end in stride(from: range.lowerBound / step * step + step, through: range.upperBound + step, by: Int(step))
        {
            let part = range.clamped(to: end - step...end - 1)
            let mean = Double(count) * Double(part.upperBound - part.lowerBound) / 1e9
            let found = Double(ended.removeValue(forKey: end) ?? 0)
            #expect(abs(found - mean) <= 4 * mean.squareRoot() + 1, "\(found) at \(end), of \(mean)")
        }
        #expect(ended.isEmpty, "none outside")
    }

    private struct Missing: Error {}

    @Test func whatTheLogHasLostIsToldAfterAPauseToo() throws {
        let wire = try slowDevice()
        fail()
        world.feed.logs[stream]?.floor = 28
        try pass()
        world.feedReads()
        world.settle()
        let texts = world.read(1_000, wire)
        #expect(texts.count == 1 && texts[0].contains(ResumeLoss.positionExpired.rawValue))
        #expect(!wire.session.isBehind)
    }

    /// The reset tells it, once, and nothing before it does.
    @Test(arguments: [true, false]) func anotherLifeInAPauseIsAReset(_ isSeenByTheRead: Bool) throws {
        let wire = try slowDevice()
        if !isSeenByTheRead { fail() }
        world.feed.lose(stream, epoch: "f", top: 7)
        if isSeenByTheRead { fail(.otherEpoch) }
        #expect(wire.queue.isEmpty)
        world.feedDelivers(stream)
        world.settle()
        let texts = world.read(1_000, wire)
        #expect(texts.count == 1 && texts[0].contains(ResumeLoss.streamReset.rawValue), "\(texts)")
        #expect(world.shard.readerCount == 0)
        #expect(world.shard.nextPauseEnd == nil)
        #expect(world.feed.reads.isEmpty)
        world.feed.commit(stream)
        world.settle()
        #expect(offsets(world.read(10, wire)) == [8])
    }

    @Test(arguments: [true, false]) func aReaderThatLeavesInAPauseIsForgotten(_ byClosing: Bool) throws {
        let wire = try slowDevice()
        fail()
        if byClosing { world.disconnect(wire) } else { try world.unsubscribe(channel, wire) }
        world.settleButForReads()
        #expect(world.shard.readerCount == 0)
        // The stream lingers without readers.
        try pass()
        #expect(world.feed.reads.isEmpty)
        #expect(world.shard.nextPauseEnd == nil)
        // Subscribed again, it begins at the present.
        let again = byClosing ? try device(0) : wire
        try world.subscribe(channel, again)
        world.settle()
        world.feed.commit(stream)
        world.settle()
        #expect(offsets(world.read(10, again)) == [31])
    }

    /// The device returns within the pause, and is behind again when the old pause ends.
    @Test func subscribedAgainWithinAPause() throws {
        let wire = try slowDevice()
        fail()
        try world.unsubscribe(channel, wire)
        try world.resume(channel, "e", 2, wire)
        try world.subscribe(channel, wire)
        world.settleButForReads()
        #expect(world.feed.reads.map(\.after) == [2], "what a client asks for waits for no pause")
        let texts = rest(wire)
        #expect(offsets(texts) == Array(3...30))
        #expect(!texts.contains { $0.contains("store_unavailable") })
    }

    /// A client's resume is answered when its read fails; the slow device beside it, at the same position, is not.
    @Test func aResumeIsAnsweredAndAPageAtTheSamePlaceIsNot() throws {
        let slow = try slowDevice()
        let after = try #require(world.feed.reads.first).after
        let asking = try device(1)
        try world.resume(channel, "e", after, asking)
        try world.subscribe(channel, asking)
        world.settleButForReads()
        #expect(world.feed.reads.count == 1)
        fail()
        #expect(world.read(10, asking).contains { $0.contains("store_unavailable") })
        #expect(slow.queue.isEmpty)
        // It asks again during the pause, and is served at once.
        try world.resume(channel, "e", after, asking)
        world.settleButForReads()
        #expect(world.feed.reads.map(\.after) == [after])
        // The answer also serves the slow device and ends its pause.
        let texts = rest(asking)
        #expect(offsets(texts) == Array(after + 1...30))
        #expect(offsets(rest(slow)) == Array(after + 1...30))
    }

    /// More devices than may resume at a time, all at one position: none is refused, and each pause is followed by one read.
    @Test func aThousandSlowOnesCostOneRead() throws {
        var limits = world.limits
        limits.readersPerStreamMax = 100
        var shard = StreamShard(limits: limits)
        var effects: ContiguousArray<StreamShard.Effect> = []
        let name = StreamName(form: .user, stream: stream)
        func join(_ slot: UInt32, _ purpose: StreamJoin.Purpose) {
            let session = SessionID(slot: slot, generation: 1)
            shard.join(StreamJoin(name: name, session: session, serial: 1, purpose: purpose), from: 0, &effects)
        }
        join(0, .subscribe)
        shard.positioned(stream, at: StreamPosition(epoch: "e", offset: 20), watch: 1, &effects)
        effects = []
        let position = StreamPosition(epoch: "e", offset: 1)
        for slot in 0..<5_000 as Range<UInt32> { join(slot, .next(after: position)) }
        guard case .read(let read)? = effects.first, effects.count == 1 else { throw Missing() }
        #expect(shard.readerCount == 5_000)
        join(5_000, .resume(from: position))
        guard case .joined(_, let refused)? = effects.last, case .lost(.storeUnavailable) = refused.outcome else {
            throw Missing()
        }
        for _ in 0..<3 {
            effects = []
            shard.unreadable(read, .busy, now: shard.nextPauseEnd ?? 0, &effects)
            #expect(effects.isEmpty)
            shard.endPauses(now: try #require(shard.nextPauseEnd), &effects)
            guard case .read(read)? = effects.first, effects.count == 1 else { throw Missing() }
        }
        effects = []
        let event = StreamEvent(stream: stream, offset: 2, name: "x", data: .copy("{}"))
        shard.page(read, [event], now: 0, &effects)
        #expect(effects.count == 5_000)
        #expect(shard.readerCount == 0)
    }
}
