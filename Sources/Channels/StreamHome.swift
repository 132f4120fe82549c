import Bytes
import Pusher
import Sync

/// The streams whose home is one loop: which loops want them, under which of their two names, and up to where they
/// have been handed on.
///
/// A stream without takers is forgotten. Its first taker makes the home watch it: the feed reads its position and hands
/// over all that comes after. Takers wait for that position; those who come later are let in at once, at the offset handed
/// on last. Answer and events leave for a loop by one mailbox, so no event can overtake the answer, and none
/// between the two is missing: that is the whole of the gate.
///
/// Worst interleavings, each with its test in `StreamHomeTests`:
/// - the last taker leaves and another comes while the position read is under way: the answer to the old watch would
///   be too low for the new one, whose events start higher, so watches are numbered (`staleAnswerIsIgnored`);
/// - a loop's last subscriber leaves while its next one's join is in the mailbox: leave and join keep their order,
///   and a loop that awaits an answer sends no leave (`HubTests.noLeaveWhileJoining`).
package struct StreamHome {
    package enum Effect {
        /// Have the feed read the stream's position and hand over its events from there on.
        case watch(StreamID, serial: UInt32)
        case unwatch(StreamID)
        /// Send the answer to the loop.
        case joined(loop: Int, StreamJoined)
        /// Tell the loop that its session cannot be let in.
        case refused(loop: Int, SessionID, serial: UInt32)
        /// Send the frame to the subscribers of the named channel on each loop of the set.
        case broadcast(loops: LoopSet, channel: String, frame: SharedBytes)
    }

    fileprivate struct Stream {
        /// The loops that have takers under `user.…` and under `private-user.…`.
        var loops: LoopSet = []
        var privateLoops: LoopSet = []
        /// The offset handed on last; nil until the feed has answered.
        var position: StreamPosition?
        let watch: UInt32
    }

    private struct Waiting {
        let loop: Int
        let join: StreamJoin
    }

    private var streams: [StreamID: Stream] = [:]
    /// Joins of streams whose position is being read. Beside the table, since nearly every stream has none.
    private var waiting: [StreamID: ContiguousArray<Waiting>] = [:]
    private var lastWatch: UInt32 = 0

    package init() {}

    package var streamCount: Int { streams.count }

    /// A loop asks for one of its sessions to be let in.
    package mutating func join(_ join: StreamJoin, from loop: Int, _ effects: inout ContiguousArray<Effect>) {
        let id = join.name.stream
        guard var stream = streams[id] else {
            lastWatch &+= 1
            var stream = Stream(watch: lastWatch)
            stream.take(join.name.form, loop)
            streams[id] = stream
            waiting[id] = [Waiting(loop: loop, join: join)]
            effects.append(.watch(id, serial: lastWatch))
            return
        }
        stream.take(join.name.form, loop)
        streams[id] = stream
        if let position = stream.position {
            effects.append(.joined(loop: loop, join.answered(at: position)))
        } else {
            waiting[id, default: []].append(Waiting(loop: loop, join: join))
        }
    }

    /// A loop has nobody left under this name, and awaits nobody.
    package mutating func leave(_ name: StreamName, from loop: Int, _ effects: inout ContiguousArray<Effect>) {
        guard var stream = streams[name.stream] else { return }
        stream.drop(name.form, loop)
        waiting[name.stream]?.removeAll { $0.loop == loop && $0.join.name.form == name.form }
        guard stream.isWanted else {
            streams[name.stream] = nil
            waiting[name.stream] = nil
            effects.append(.unwatch(name.stream))
            return
        }
        streams[name.stream] = stream
    }

    /// The feed has read where the stream stands, for the watch of that number.
    package mutating func positioned(
        _ id: StreamID, at position: StreamPosition, watch: UInt32, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let stream = streams[id], stream.watch == watch, stream.position == nil else { return }
        streams[id]?.position = position
        for waiting in waiting.removeValue(forKey: id) ?? [] {
            effects.append(.joined(loop: waiting.loop, waiting.join.answered(at: position)))
        }
    }

    /// The feed cannot watch the stream: who waits is refused.
    package mutating func refused(_ id: StreamID, watch: UInt32, _ effects: inout ContiguousArray<Effect>) {
        guard let stream = streams[id], stream.watch == watch else { return }
        streams[id] = nil
        for waiting in waiting.removeValue(forKey: id) ?? [] {
            effects.append(.refused(loop: waiting.loop, waiting.join.session, serial: waiting.join.serial))
        }
    }

    /// What lies between the offset handed on last and `position` cannot be had (a restore, a failover, a log that ends
    /// too late). The takers are told by being answered again, at a position that does not follow theirs: fetch anew.
    package mutating func reset(_ id: StreamID, to position: StreamPosition, _ effects: inout ContiguousArray<Effect>) {
        guard let stream = streams[id], stream.position != nil else { return }
        streams[id]?.position = position
        for form in StreamForm.allCases {
            let loops = stream.loops(form)
            guard !loops.isEmpty, let name = StreamName(form: form, stream: id).format(),
                let channel = ChannelName(name)
            else { continue }
            let frame = ServerEvent.succeededFrame(channel, at: position)
            effects.append(.broadcast(loops: loops, channel: name, frame: frame))
        }
    }

    /// The feed hands over one event. Events of a stream come in order; one at or below the offset handed on last,
    /// or of a stream not yet positioned, lies before what any taker was promised.
    package mutating func received(_ event: StreamEvent, _ effects: inout ContiguousArray<Effect>) {
        guard let stream = streams[event.stream], let position = stream.position, event.offset > position.offset else {
            return
        }
        streams[event.stream]?.position = StreamPosition(epoch: position.epoch, offset: event.offset)
        for form in StreamForm.allCases {
            let loops = stream.loops(form)
            guard !loops.isEmpty, let name = StreamName(form: form, stream: event.stream).format() else { continue }
            let frame = ServerEvent.streamFrame(event, channel: name)
            effects.append(.broadcast(loops: loops, channel: name, frame: frame))
        }
    }
}

/// A set of loops, by number.
package struct LoopSet: OptionSet, Sendable {
    package let rawValue: UInt64

    /// The most loops that a hub may have.
    package static let loopsMax = 64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    package init(loop: Int) {
        rawValue = 1 << UInt64(loop)
    }

    package func contains(loop: Int) -> Bool { contains(LoopSet(loop: loop)) }
}

extension StreamHome.Stream {
    var isWanted: Bool { !loops.isEmpty || !privateLoops.isEmpty }

    func loops(_ form: StreamForm) -> LoopSet {
        form == .user ? loops : privateLoops
    }

    mutating func take(_ form: StreamForm, _ loop: Int) {
        if form == .user {
            loops.insert(LoopSet(loop: loop))
        } else {
            privateLoops.insert(LoopSet(loop: loop))
        }
    }

    mutating func drop(_ form: StreamForm, _ loop: Int) {
        if form == .user {
            loops.remove(LoopSet(loop: loop))
        } else {
            privateLoops.remove(LoopSet(loop: loop))
        }
    }
}

extension StreamJoin {
    fileprivate func answered(at position: StreamPosition) -> StreamJoined {
        StreamJoined(session: session, serial: serial, position: position)
    }
}
