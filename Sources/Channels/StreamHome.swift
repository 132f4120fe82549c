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
        var state = State.awaiting(WaitingList())
        let watch: UInt32

        init(watch: UInt32) {
            self.watch = watch
        }
    }

    fileprivate enum State {
        /// The feed has not answered yet; these joins wait for the position.
        case awaiting(WaitingList)
        /// The offset handed on last.
        case positioned(StreamPosition)
    }

    fileprivate struct Waiting {
        let session: SessionID
        let serial: UInt32
        /// Below `LoopSet.loopsMax`; small, for each stream has room for one of these.
        let loop: UInt8
        let form: StreamForm
    }

    /// Nearly always one, which needs no memory of its own.
    fileprivate struct WaitingList {
        private var first: Waiting?
        private var others: ContiguousArray<Waiting> = []

        mutating func append(_ waiting: Waiting) {
            if first == nil {
                first = waiting
            } else {
                others.append(waiting)
            }
        }

        mutating func removeAll(where isGone: (Waiting) -> Bool) {
            if let first, isGone(first) { self.first = nil }
            others.removeAll(where: isGone)
        }

        func forEachJoin(_ body: (Waiting) -> Void) {
            if let first { body(first) }
            for waiting in others { body(waiting) }
        }
    }

    // Looked into once for each input. Entries are changed by their index, where they lie: by their key, each change
    // costs three allocations.
    private var streams: [StreamID: Stream] = [:]
    private var lastWatch: UInt32 = 0

    package init() {}

    package var streamCount: Int { streams.count }

    /// A loop asks for one of its sessions to be let in.
    package mutating func join(_ join: StreamJoin, from loop: Int, _ effects: inout ContiguousArray<Effect>) {
        let id = join.name.stream
        let known = streams.count
        if let position = streams[id, default: Stream(watch: lastWatch &+ 1)].take(join, loop) {
            let joined = StreamJoined(session: join.session, serial: join.serial, position: position)
            effects.append(.joined(loop: loop, joined))
        } else if streams.count > known {
            lastWatch &+= 1
            effects.append(.watch(id, serial: lastWatch))
        }
    }

    /// A loop has nobody left under this name, and awaits nobody.
    package mutating func leave(_ name: StreamName, from loop: Int, _ effects: inout ContiguousArray<Effect>) {
        guard let place = streams.index(forKey: name.stream), !streams.values[place].drop(name.form, loop) else {
            return
        }
        streams.remove(at: place)
        effects.append(.unwatch(name.stream))
    }

    /// The feed has read where the stream stands, for the watch of that number.
    package mutating func positioned(
        _ id: StreamID, at position: StreamPosition, watch: UInt32, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let place = streams.index(forKey: id),
            let waiting = streams.values[place].positioned(at: position, watch: watch)
        else { return }
        waiting.forEachJoin {
            let joined = StreamJoined(session: $0.session, serial: $0.serial, position: position)
            effects.append(.joined(loop: Int($0.loop), joined))
        }
    }

    /// The feed cannot watch the stream: who waits is refused.
    package mutating func refused(_ id: StreamID, watch: UInt32, _ effects: inout ContiguousArray<Effect>) {
        guard let stream = streams[id], stream.watch == watch else { return }
        streams[id] = nil
        stream.waiting?.forEachJoin {
            effects.append(.refused(loop: Int($0.loop), $0.session, serial: $0.serial))
        }
    }

    /// What lies between the offset handed on last and `position` cannot be had (a restore, a failover, a log that ends
    /// too late). The takers are told by being answered again, at a position that does not follow theirs: fetch anew.
    package mutating func reset(_ id: StreamID, to position: StreamPosition, _ effects: inout ContiguousArray<Effect>) {
        guard let stream = streams[id], stream.position != nil else { return }
        streams[id]?.state = .positioned(position)
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
        streams[event.stream]?.state = .positioned(StreamPosition(epoch: position.epoch, offset: event.offset))
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
    var position: StreamPosition? {
        guard case .positioned(let position) = state else { return nil }
        return position
    }

    /// Nil once the position is known.
    var waiting: StreamHome.WaitingList? {
        guard case .awaiting(let waiting) = state else { return nil }
        return waiting
    }

    func loops(_ form: StreamForm) -> LoopSet {
        form == .user ? loops : privateLoops
    }

    /// Takes a loop in: at once, where the position is known, or when it will be.
    mutating func take(_ join: StreamJoin, _ loop: Int) -> StreamPosition? {
        let form = join.name.form
        if form == .user {
            loops.insert(LoopSet(loop: loop))
        } else {
            privateLoops.insert(LoopSet(loop: loop))
        }
        guard case .awaiting(var waiting) = state else { return position }
        // Let go of before the list grows, or it would be copied.
        state = .awaiting(StreamHome.WaitingList())
        waiting.append(
            StreamHome.Waiting(
                session: join.session, serial: join.serial, loop: UInt8(truncatingIfNeeded: loop), form: form))
        state = .awaiting(waiting)
        return nil
    }

    /// Lets a loop go, and says whether any is left.
    mutating func drop(_ form: StreamForm, _ loop: Int) -> Bool {
        if form == .user {
            loops.remove(LoopSet(loop: loop))
        } else {
            privateLoops.remove(LoopSet(loop: loop))
        }
        if var waiting {
            waiting.removeAll { Int($0.loop) == loop && $0.form == form }
            state = .awaiting(waiting)
        }
        return !loops.isEmpty || !privateLoops.isEmpty
    }

    /// The position has been read: whom to tell; nil where another watch is meant, or it was known before.
    mutating func positioned(at position: StreamPosition, watch: UInt32) -> StreamHome.WaitingList? {
        guard self.watch == watch, let waiting else { return nil }
        state = .positioned(position)
        return waiting
    }
}
