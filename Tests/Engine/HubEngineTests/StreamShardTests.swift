import Bytes
import HubEngine
import Sync
import Testing

@Suite struct StreamShardTests {
    private let stream = StreamID(user: "u", topic: "adherence")
    private var name: StreamName { StreamName(form: .user, stream: stream) }
    private var privateName: StreamName { StreamName(form: .privateUser, stream: stream) }

    private func position(_ offset: Int64) -> StreamPosition { StreamPosition(epoch: "e", offset: offset) }

    private func event(_ offset: Int64) -> StreamEvent {
        StreamEvent(stream: stream, offset: offset, name: "x", data: .copy(#"{"o":\#(offset)}"#))
    }

    private func join(_ slot: UInt32, _ name: StreamName? = nil) -> StreamJoin {
        StreamJoin(name: name ?? self.name, session: SessionID(slot: slot, generation: 1), serial: slot)
    }

    private func run(
        _ shard: inout StreamShard, _ input: (inout StreamShard, inout ContiguousArray<StreamShard.Effect>) -> Void
    ) -> [String] {
        var effects: ContiguousArray<StreamShard.Effect> = []
        input(&shard, &effects)
        return effects.map { effect in
            switch effect {
            case .watch(_, let serial, _): "watch \(serial)"
            case .unwatch: "unwatch"
            case .read(let read): "read \(read.after) to \(read.upTo)"
            case .joined(let loop, let joined):
                "joined \(loop) \(joined.session.slot) at \(joined.position.offset)\(text(joined.outcome))"
            case .refused(let loop, let session, _, _): "refused \(loop) \(session.slot)"
            case .broadcast(let told):
                "\(told.loops.rawValue) \(told.name.format() ?? "") \(told.messages.texts.joined())"
            case .reset(let loops, let channel, let position, let loss):
                "\(loops.rawValue) \(channel.format() ?? "") reset \(position.epochText) \(position.offset) \(loss)"
            }
        }
    }

    private func text(_ outcome: StreamJoined.Outcome) -> String {
        func offsets(_ page: StreamPage?) -> String {
            guard let page else { return " nothing" }
            let count = Int64(page.messages.texts.count)
            return " \(page.last - count + 1)-\(page.last)"
        }
        return switch outcome {
        case .fresh: ""
        case .recovered(let replayed, let page): " replays \(replayed)" + offsets(page)
        case .page(let page): " page" + offsets(page)
        case .lost(let loss): " \(loss)"
        }
    }

    /// A shard that drops streams with their last taker.
    private func forgetful() -> StreamShard {
        var limits = StreamLimits()
        limits.linger = .zero
        return StreamShard(limits: limits)
    }

    @Test func takersWaitForThePositionAndThenForNothing() {
        var shard = forgetful()
        #expect(run(&shard) { $0.join(join(1), from: 0, &$1) } == ["watch 1"])
        #expect(run(&shard) { $0.join(join(2), from: 3, &$1) } == [])
        #expect(run(&shard) { $0.received(event(5), &$1) } == [], "below what will be answered")
        #expect(
            run(&shard) { $0.positioned(stream, at: position(5), watch: 1, &$1) } == [
                "joined 0 1 at 5", "joined 3 2 at 5",
            ])
        #expect(run(&shard) { $0.received(event(5), &$1) } == [])
        #expect(
            run(&shard) { $0.received(event(6), &$1) }
                == [#"9 user.u.adherence {"event":"x","channel":"user.u.adherence","data":"{\"o\":6}"}"#])
        #expect(run(&shard) { $0.received(event(6), &$1) } == [], "never twice")
        #expect(run(&shard) { $0.join(join(4), from: 1, &$1) } == ["joined 1 4 at 6"])
    }

    @Test func aSessionThatWaitedForOneStreamIsNotToldOfTheNext() {
        var shard = forgetful()
        for slot in 1...3 as ClosedRange<UInt32> { _ = run(&shard) { $0.join(join(slot), from: 0, &$1) } }
        #expect(run(&shard) { $0.positioned(stream, at: position(5), watch: 1, &$1) }.count == 3)
        let other = StreamID(user: "v", topic: "adherence")
        let name = StreamName(form: .user, stream: other)
        #expect(run(&shard) { $0.join(join(4, name), from: 0, &$1) } == ["watch 2"])
        #expect(run(&shard) { $0.positioned(other, at: position(7), watch: 2, &$1) } == ["joined 0 4 at 7"])
    }

    @Test func eachNameInUseIsEncodedOnce() {
        var shard = forgetful()
        _ = run(&shard) { $0.join(join(1), from: 0, &$1) }
        _ = run(&shard) { $0.positioned(stream, at: position(0), watch: 1, &$1) }
        _ = run(&shard) { $0.join(join(2, privateName), from: 1, &$1) }
        let heard = run(&shard) { $0.received(event(1), &$1) }
        #expect(heard.count == 2)
        #expect(heard.first?.hasPrefix("1 user.u.adherence ") == true)
        #expect(heard.last?.hasPrefix("2 private-user.u.adherence ") == true)
        #expect(run(&shard) { $0.leave(name, from: 0, now: 0, &$1) } == [])
        #expect(run(&shard) { $0.received(event(2), &$1) }.count == 1)
        #expect(run(&shard) { $0.leave(privateName, from: 1, now: 0, &$1) } == ["unwatch"])
        #expect(shard.streamCount == 0)
    }

    /// The first watch's answer may be lower than the start of the second watch's events.
    @Test func staleAnswerIsIgnored() {
        var shard = forgetful()
        _ = run(&shard) { $0.join(join(1), from: 0, &$1) }
        #expect(run(&shard) { $0.leave(name, from: 0, now: 0, &$1) } == ["unwatch"])
        #expect(run(&shard) { $0.join(join(2), from: 0, &$1) } == ["watch 2"])
        #expect(run(&shard) { $0.positioned(stream, at: position(5), watch: 1, &$1) } == [])
        #expect(run(&shard) { $0.positioned(stream, at: position(7), watch: 2, &$1) } == ["joined 0 2 at 7"])
    }

    @Test func theWaitingOfALoopThatLeftAreForgotten() {
        var shard = forgetful()
        _ = run(&shard) { $0.join(join(1), from: 0, &$1) }
        _ = run(&shard) { $0.join(join(2), from: 1, &$1) }
        #expect(run(&shard) { $0.leave(name, from: 0, now: 0, &$1) } == [])
        #expect(run(&shard) { $0.positioned(stream, at: position(0), watch: 1, &$1) } == ["joined 1 2 at 0"])
    }

    @Test func aStreamThatCannotBeWatchedIsRefused() {
        var shard = forgetful()
        _ = run(&shard) { $0.join(join(1), from: 2, &$1) }
        #expect(run(&shard) { $0.refused(stream, watch: 1, .userFull, &$1) } == ["refused 2 1"])
        #expect(shard.streamCount == 0)
    }

    @Test func aResetIsToldAndCountsAnew() {
        var shard = forgetful()
        _ = run(&shard) { $0.join(join(1), from: 0, &$1) }
        _ = run(&shard) { $0.positioned(stream, at: position(100), watch: 1, &$1) }
        let heard = run(&shard) { $0.reset(stream, to: StreamPosition(epoch: "f", offset: 3), &$1) }
        #expect(heard == ["1 user.u.adherence reset f 3 streamReset"], "the subscribers are told")
        #expect(run(&shard) { $0.received(event(4), &$1) }.count == 1)
    }
}
