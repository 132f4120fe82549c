import Bytes
import Clock
import HubEngine
import Sync
import Testing

/// The window and lingering streams, at each bound and one past it.
@Suite struct WindowTests {
    private let stream = StreamID(user: "u", topic: "adherence")
    private var name: StreamName { StreamName(form: .user, stream: stream) }

    private func event(_ offset: Int64, of stream: StreamID? = nil, bytes: Int = 10) -> StreamEvent {
        let data = String(repeating: "x", count: bytes)
        return StreamEvent(stream: stream ?? self.stream, offset: offset, name: "n", data: .copy(data))
    }

    private typealias Effects = ContiguousArray<StreamShard.Effect>

    private func shard(_ streams: [StreamID], _ change: (inout StreamLimits) -> Void) -> StreamShard {
        var limits = StreamLimits()
        change(&limits)
        var shard = StreamShard(limits: limits)
        var effects = Effects()
        for (index, stream) in streams.enumerated() {
            shard.join(
                StreamJoin(
                    name: StreamName(form: .user, stream: stream), session: SessionID(slot: 1, generation: 1), serial: 1
                ), from: 0, &effects)
            shard.positioned(
                stream, at: StreamPosition(epoch: "e", offset: 0), watch: UInt32(index + 1), &effects)
        }
        return shard
    }

    /// The result of a resume from there: a page, a read of the log, or a loss.
    private func resume(_ shard: inout StreamShard, from offset: Int64, of stream: StreamID? = nil) -> String {
        var effects = Effects()
        let name = StreamName(form: .user, stream: stream ?? self.stream)
        shard.join(
            StreamJoin(
                name: name, session: SessionID(slot: 2, generation: 1), serial: 1,
                purpose: .resume(from: StreamPosition(epoch: "e", offset: offset))), from: 0, &effects)
        switch effects.first {
        case .joined(_, let joined):
            switch joined.outcome {
            case .recovered(let replayed, let page): return "\(replayed) to \(page.map { "\($0.last)" } ?? "-")"
            case .lost(let loss): return loss.rawValue
            default: return "?"
            }
        case .read: return "read"
        default: return "?"
        }
    }

    @Test func eventsOfOneStream() {
        var shard = shard([stream]) { $0.windowEvents = 4 }
        var effects = Effects()
        for offset in 1...6 as ClosedRange<Int64> { shard.received(event(offset), &effects) }
        #expect(resume(&shard, from: 6) == "0 to -")
        #expect(resume(&shard, from: 2) == "4 to 6")
        #expect(resume(&shard, from: 1) == "read")
    }

    @Test func bytesOfOneStream() {
        let one = shard([stream]) { _ in }
        var measured = one
        var effects = Effects()
        measured.received(event(1, bytes: 1_000), &effects)
        let cost = measured.windowByteCount
        #expect(cost > 1_000, "what keeping it costs counts")
        var shard = shard([stream]) { $0.windowBytes = 2 * cost }
        for offset in 1...3 as ClosedRange<Int64> { shard.received(event(offset, bytes: 1_000), &effects) }
        #expect(shard.windowByteCount == 2 * cost)
        #expect(resume(&shard, from: 1) == "2 to 3")
        // An event larger than the whole window is not kept.
        shard.received(event(4, bytes: 5_000), &effects)
        #expect(shard.windowByteCount == 0)
        #expect(resume(&shard, from: 4) == "0 to -")
        #expect(resume(&shard, from: 3) == "read")
        shard.received(event(5), &effects)
        #expect(resume(&shard, from: 4) == "1 to 5")
    }

    @Test func overAllStreamsTheOldestEventGoes() {
        let streams = (0..<3).map { StreamID(user: "u\($0)", topic: "x") }
        var measured = shard(streams) { _ in }
        var effects = Effects()
        measured.received(event(1, of: streams[0]), &effects)
        let cost = measured.windowByteCount
        var shard = shard(streams) { $0.windowTotalBytes = 4 * cost }
        for offset in 1...2 as ClosedRange<Int64> {
            for stream in streams { shard.received(event(offset, of: stream), &effects) }
            #expect(shard.windowByteCount <= 4 * cost)
        }
        // Six came in turn; the first events of two streams were evicted.
        #expect(shard.windowByteCount == 4 * cost)
        #expect(resume(&shard, from: 0, of: streams[0]) == "read")
        #expect(resume(&shard, from: 0, of: streams[1]) == "read")
        #expect(resume(&shard, from: 0, of: streams[2]) == "2 to 2")
        #expect(resume(&shard, from: 1, of: streams[0]) == "1 to 2")
        // A reset frees its room.
        shard.reset(streams[2], to: StreamPosition(epoch: "f", offset: 9), &effects)
        #expect(shard.windowByteCount == 2 * cost)
    }

    @Test func aBusyStreamLeavesNoTrailBehind() {
        var shard = shard([stream]) { $0.windowEvents = 2 }
        var effects = Effects()
        for offset in 1...20_000 as ClosedRange<Int64> {
            shard.received(event(offset), &effects)
            effects.removeAll(keepingCapacity: true)
        }
        #expect(shard.evictionEntries < 2_000)
    }

    @Test func aPageHasItsBounds() {
        var shard = shard([stream]) {
            $0.pageEvents = 3
            $0.pageBytes = 5_002
        }
        var effects = Effects()
        for offset in 1...5 as ClosedRange<Int64> { shard.received(event(offset), &effects) }
        #expect(resume(&shard, from: 2) == "3 to 5")
        #expect(resume(&shard, from: 1) == "4 to 4", "three at most")
        shard.received(event(6, bytes: 5_000), &effects)
        shard.received(event(7, bytes: 5_001), &effects)
        #expect(resume(&shard, from: 5) == "2 to 6", "the bytes of one")
        #expect(resume(&shard, from: 6) == "1 to 7")
        shard.received(event(8, bytes: 9_000), &effects)
        #expect(resume(&shard, from: 7) == "1 to 8", "one at least")
    }

    @Test func replaysAreBounded() {
        var shard = shard([stream]) { $0.replayEvents = 5 }
        var effects = Effects()
        for offset in 1...9 as ClosedRange<Int64> { shard.received(event(offset), &effects) }
        #expect(resume(&shard, from: 4) == "5 to 9")
        #expect(resume(&shard, from: 3) == "too_many")
    }

    @Test func readersAreBounded() {
        var shard = shard([stream]) {
            $0.readersPerStreamMax = 2
            $0.windowEvents = 1
        }
        var effects = Effects()
        for offset in 1...9 as ClosedRange<Int64> { shard.received(event(offset), &effects) }
        effects.removeAll()
        for slot in 1...3 as ClosedRange<UInt32> {
            shard.join(
                StreamJoin(
                    name: name, session: SessionID(slot: slot, generation: 1), serial: 1,
                    purpose: .resume(from: StreamPosition(epoch: "e", offset: 1))), from: 0, &effects)
        }
        #expect(shard.readerCount == 2)
        guard case .joined(0, let joined)? = effects.last, case .lost(.storeUnavailable) = joined.outcome else {
            Issue.record("the third is told to ask later")
            return
        }
        #expect(joined.session.slot == 3)
    }

    // MARK: Lingering

    private func leave(_ shard: inout StreamShard, _ stream: StreamID, now: Instant) -> Int {
        var effects = Effects()
        shard.leave(StreamName(form: .user, stream: stream), from: 0, now: now, &effects)
        return effects.count
    }

    @Test func aStreamLingersWithItsWindow() {
        var shard = shard([stream]) { $0.linger = .nanoseconds(100) }
        var effects = Effects()
        shard.received(event(1), &effects)
        #expect(leave(&shard, stream, now: 1_000) == 0)
        #expect(leave(&shard, stream, now: 1_000) == 0, "said twice, it lingers once")
        #expect(shard.lingeringCount == 1)
        effects.removeAll()
        shard.received(event(2), &effects)
        #expect(effects.isEmpty, "nobody to tell")
        shard.sweep(now: 1_099, &effects)
        #expect(shard.streamCount == 1)
        #expect(resume(&shard, from: 0) == "2 to 2", "no question to the database")
        #expect(shard.lingeringCount == 0)
        shard.sweep(now: 2_000, &effects)
        #expect(shard.streamCount == 1, "it is taken")
        _ = leave(&shard, stream, now: 3_000)
        // Taken and left again: its time starts anew.
        _ = resume(&shard, from: 2)
        _ = leave(&shard, stream, now: 3_050)
        shard.sweep(now: 3_149, &effects)
        #expect(shard.streamCount == 1)
        shard.sweep(now: 3_150, &effects)
        #expect(shard.streamCount == 0)
        #expect(shard.windowByteCount == 0)
        guard case .unwatch? = effects.last else {
            Issue.record("the feed is told")
            return
        }
    }

    @Test func lingeringStreamsAreBounded() {
        let streams = (0..<3).map { StreamID(user: "u\($0)", topic: "x") }
        var shard = shard(streams) { $0.lingeringMax = 2 }
        var effects = Effects()
        for stream in streams { shard.received(event(1, of: stream), &effects) }
        #expect(leave(&shard, streams[1], now: 1) == 0)
        #expect(leave(&shard, streams[0], now: 2) == 0)
        #expect(leave(&shard, streams[2], now: 3) == 1, "the one that waited longest goes")
        #expect(shard.streamCount == 2)
        #expect(shard.lingeringCount == 2)
        #expect(resume(&shard, from: 1, of: streams[0]) == "0 to -")
    }

    /// Nothing is lost with it; invented names would otherwise fill the room of others.
    @Test func aStreamWithoutEventsDoesNotLinger() {
        var shard = shard([stream]) { _ in }
        #expect(leave(&shard, stream, now: 1) == 1)
        #expect(shard.streamCount == 0)
    }

    @Test func aStreamWithoutPositionDoesNotLinger() {
        var shard = StreamShard()
        var effects = Effects()
        shard.join(
            StreamJoin(name: name, session: SessionID(slot: 1, generation: 1), serial: 1), from: 0, &effects)
        #expect(leave(&shard, stream, now: 1) == 1)
        #expect(shard.streamCount == 0)
    }
}
