import Bytes
import Clock
import Pusher
import Sync

/// The shard of streams that one loop owns. It knows which loops subscribe to a stream and by which of its two names, the
/// offset handed on last, and the window of recent events.
///
/// When the first loop subscribes, the shard watches the stream: the feed reads its position and then hands over every later
/// event. Joins wait for that position; later ones are let in at once, at the offset handed on last. A stream without
/// subscribers lingers for a while, watched and with its window, for the device that comes back.
///
/// Answers and events leave for a loop by one mailbox, in the order in which the shard decides them. So no event overtakes
/// an answer, and none between the two is missing. That is the whole of the gate, and of the merge of a replay with live
/// events. Events of an input leave before its answers.
///
/// Worst interleavings, each with its test in `StreamShardTests`:
/// - The last loop leaves and another joins while the position is being read. The answer to the old watch would be too low
///   for the new one, whose events start higher. So watches are numbered (`staleAnswerIsIgnored`).
/// - A loop's last subscriber leaves while its next one's join is in the mailbox. Leave and join keep their order, and a
///   loop that awaits an answer sends no leave (`SessionEngineTests.noLeaveWhileJoining`).
/// - A page of the log arrives when the stream has moved on. It goes no further than what had been handed on when it was
///   asked for, and does not count as the last page (`ResumeTests.aLiveEventDuringAReplayFromTheLog`).
package struct StreamShard {
    /// What the shard wants done, in order.
    package enum Effect {
        /// Have the feed read the stream's position and hand over its events from there on.
        case watch(StreamID, serial: UInt32, isBack: Bool)
        case unwatch(StreamID)
        /// Have the feed read a page of the log, and report by `page` or `unreadable`.
        case read(StreamRead)
        /// Send the answer to the loop.
        case joined(loop: Int, StreamJoined)
        /// Tell the loop that its session cannot be let in.
        case refused(loop: Int, SessionID, serial: UInt32, StreamRefusal)
        case broadcast(Broadcast)
        /// Tell all subscribers under that name, on each loop of the set, that the stream continues at that position.
        case reset(loops: LoopSet, StreamName, StreamPosition, ResumeLoss)
    }

    /// Send an event to the subscribers under that name on each loop of the set.
    ///
    /// One value, so that it can be moved out of its effect: with a copy, the messages could not be framed in place.
    package struct Broadcast {
        /// Where the subscribers are.
        package let loops: LoopSet
        /// The stream by the name that they use.
        package let name: StreamName
        /// The event's offset.
        package let offset: Int64
        /// The event.
        package var messages: Messages
    }

    private let limits: StreamLimits
    // One lookup for each input; entries are changed in place, by index.
    private var streams = KeyedTable<StreamState>()
    private var lastWatch: UInt32 = 0
    /// Empty waiting lists, reused: a stream needs one only until its position is known, which is soon.
    private var spareLists: ContiguousArray<ContiguousArray<StreamState.Waiting>> = []
    /// The most lists kept, and the largest capacity of one: 75 KB.
    private static let spareListsMax = 256
    private static let spareCapacityMax = 16
    private var replays: StreamReplays
    /// Bytes of all windows, including what keeping them costs.
    package private(set) var windowByteCount = 0
    private var windowEvents = 0
    /// The events of all windows in the order in which they came. The oldest of all is evicted first.
    private var evictions = Fifo<WindowedEvent>()
    /// The streams without subscribers, in the order in which they were left.
    private var lingering = Fifo<LingeringStream>()
    private var lastLinger: UInt32 = 0

    /// No streams. `limits` are the shard's own.
    package init(limits: StreamLimits = StreamLimits()) {
        self.limits = limits
        replays = StreamReplays(limits)
    }

    /// Watched streams, lingering ones included.
    package var streamCount: Int { streams.count }
    /// Streams without subscribers.
    package private(set) var lingeringCount = 0
    /// Entries in the eviction order of all windows.
    package var evictionEntries: Int { evictions.count }
    /// Sessions that wait for a page of the log.
    package var readerCount: Int { replays.readerCount }
    /// The earliest end of a reader's backoff, for `endPauses`; nil where there is none.
    package var nextPauseEnd: Instant? { replays.nextPauseEnd }

    /// Where the stream stands: the offset handed on last. Nil where no loop subscribes, or nothing is known yet.
    package func position(of id: StreamID) -> StreamPosition? { streams[id]?.position }

    // MARK: Subscribing loops

    /// A loop's request for one of its sessions.
    package mutating func join(_ join: StreamJoin, from loop: Int, _ effects: inout ContiguousArray<Effect>) {
        let id = join.name.stream
        let known = streams.count
        let index =
            streams.index(of: id)
            ?? streams.insert(StreamState(id, watch: lastWatch &+ 1, waiting: spareLists.popLast() ?? []))
        let (position, lingered) = streams[index].take(join, loop)
        if lingered { lingeringCount -= 1 }
        if let position {
            switch join.purpose {
            case .subscribe:
                effects.answer(join, loop, position)
            case .resume(let from):
                replays.resume(join, loop, from: from, in: streams[index], at: position, &effects)
            case .next(let after):
                replays.next(join, loop, after: after, in: streams[index], at: position, &effects)
            }
        } else if streams.count > known {
            lastWatch &+= 1
            effects.append(.watch(id, serial: lastWatch, isBack: join.isBack))
        }
    }

    /// A session of the loop left the channel before it was answered. Others of that loop are still in it.
    package mutating func forget(_ session: SessionID, _ name: StreamName, from loop: Int) {
        if let index = streams.index(of: name.stream) {
            streams[index].forget(session, name.form, loop)
        }
        replays.forget(session, name, from: loop)
    }

    /// The loop has no subscriber left under this name, and awaits no answer.
    package mutating func leave(
        _ name: StreamName, from loop: Int, now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let index = streams.index(of: name.stream) else { return }
        replays.forgetAll(name, from: loop)
        guard streams[index].drop(name.form, loop) else { return }
        // A stream that never had an event is as quickly set up for the next subscriber, and names are easily made up.
        guard let position = streams[index].position, position.offset > 0, limits.linger > .zero,
            limits.lingeringMax > 0
        else {
            return unwatch(name.stream, &effects)
        }
        lastLinger = lastLinger == .max ? 1 : lastLinger + 1
        lingeringCount += 1
        streams[index].lingers(as: lastLinger)
        lingering.append(LingeringStream(stream: name.stream, linger: lastLinger, since: now))
        if lingeringCount > limits.lingeringMax { endLongestLinger(&effects) }
        if lingering.needsSweep(live: lingeringCount) {
            let streams = streams
            lingering.sweep { streams[$0.stream]?.linger == $0.linger }
        }
    }

    /// Drops streams that nobody came back to. Worth calling while any linger.
    package mutating func sweep(now: Instant, _ effects: inout ContiguousArray<Effect>) {
        while let first = lingering.first, now >= first.since.advanced(by: limits.linger) {
            lingering.popFirst()
            endLinger(first, &effects)
        }
    }

    private mutating func endLongestLinger(_ effects: inout ContiguousArray<Effect>) {
        while let first = lingering.popFirst(), !endLinger(first, &effects) {}
    }

    /// False where the entry is stale: the stream was subscribed to again.
    @discardableResult
    private mutating func endLinger(_ entry: LingeringStream, _ effects: inout ContiguousArray<Effect>) -> Bool {
        guard streams[entry.stream]?.linger == entry.linger else { return false }
        lingeringCount -= 1
        unwatch(entry.stream, &effects)
        return true
    }

    private mutating func unwatch(_ id: StreamID, _ effects: inout ContiguousArray<Effect>) {
        forget(id)
        effects.append(.unwatch(id))
    }

    private mutating func forget(_ id: StreamID) {
        guard let stream = streams.remove(id) else { return }
        countOut(stream.window)
        replays.forgetAll(of: id)
    }

    private mutating func countOut(_ window: ReplayWindow?) {
        windowByteCount -= window?.byteCount ?? 0
        windowEvents -= window?.count ?? 0
    }

    // MARK: The feed

    /// The feed has read the stream's position, for the watch of that number.
    package mutating func positioned(
        _ id: StreamID, at position: StreamPosition, watch: UInt32, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let index = streams.index(of: id),
            var waiting = streams[index].positioned(at: position, watch: watch)
        else { return }
        for join in waiting {
            let joined = StreamJoined(session: join.session, serial: join.serial, position: position)
            effects.append(.joined(loop: Int(join.loop), joined))
        }
        guard spareLists.count < Self.spareListsMax, waiting.capacity <= Self.spareCapacityMax else { return }
        waiting.removeAll(keepingCapacity: true)
        spareLists.append(waiting)
    }

    /// The feed cannot watch the stream: waiting joins are refused.
    package mutating func refused(
        _ id: StreamID, watch: UInt32, _ refusal: StreamRefusal, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let stream = streams[id], stream.watch == watch else { return }
        forget(id)
        for join in stream.waiting ?? [] {
            effects.append(.refused(loop: Int(join.loop), join.session, serial: join.serial, refusal))
        }
    }

    /// The events between the offset handed on last and `position` cannot be had, because of a restore, a failover, or a log
    /// that ends too late. All subscribers, also those who wait for a page, are told to fetch a snapshot.
    package mutating func reset(_ id: StreamID, to position: StreamPosition, _ effects: inout ContiguousArray<Effect>) {
        guard let index = streams.index(of: id), let old = streams[index].position else { return }
        countOut(streams[index].window)
        streams[index].reset(to: position)
        replays.forgetAll(of: id)
        let isSameEpoch = old.epoch == position.epoch && position.offset >= old.offset
        for form in StreamForm.allCases {
            let loops = streams[index].loops(form)
            guard !loops.isEmpty else { continue }
            let loss = isSameEpoch ? ResumeLoss.positionExpired : .streamReset
            effects.append(.reset(loops: loops, StreamName(form: form, stream: id), position, loss))
        }
    }

    /// The feed hands over one event. A stream's events come in order. An event at or below the offset handed on last, or of
    /// a stream without a position, comes before anything that a subscriber was promised.
    package mutating func received(_ event: StreamEvent, _ effects: inout ContiguousArray<Effect>) {
        guard let index = streams.index(of: event.stream) else { return }
        let (bytes, events) = (streams[index].window?.byteCount ?? 0, streams[index].window?.count ?? 0)
        guard streams[index].advance(by: event, limits) else { return }
        windowByteCount += (streams[index].window?.byteCount ?? 0) - bytes
        windowEvents += (streams[index].window?.count ?? 0) - events
        for form in StreamForm.allCases {
            let loops = streams[index].loops(form)
            guard !loops.isEmpty else { continue }
            // The shard's own id object, which all tables here share: lookups compare it without its text.
            let name = StreamName(form: form, stream: streams[index].id)
            effects.append(
                .broadcast(Broadcast(loops: loops, name: name, offset: event.offset, messages: .event(event, name))))
        }
        evict(behind: event)
        guard streams[index].isAwaited else { return }
        replays.arrived(streams[index], &effects)
        streams[index].isAwaited = replays.awaitsArrival(event.stream)
    }

    /// A page of the log has been read.
    package mutating func page(
        _ read: StreamRead, _ events: [StreamEvent], now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let index = streams.index(of: read.stream) else { return }
        replays.page(read, events, in: streams[index], now: now, &effects)
        streams[index].isAwaited = replays.awaitsArrival(read.stream)
    }

    /// A page of the log cannot be had.
    package mutating func unreadable(
        _ read: StreamRead, _ failure: StreamReadFailure, now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let stream = streams[read.stream] else { return }
        replays.unreadable(read, failure, in: stream, now: now, &effects)
    }

    /// Reads pages again whose backoff is over. Worth calling at `nextPauseEnd`.
    package mutating func endPauses(now: Instant, _ effects: inout ContiguousArray<Effect>) {
        for id in replays.endPauses(now: now) {
            guard let stream = streams[id], let position = stream.position else { continue }
            replays.readNext(stream, position, &effects)
        }
    }

    /// Keeps all windows together within their bound: the oldest event of all is evicted first.
    private mutating func evict(behind event: StreamEvent) {
        evictions.append(WindowedEvent(stream: event.stream, offset: event.offset))
        while windowByteCount > limits.windowTotalBytes, let oldest = evictions.popFirst() {
            guard let index = streams.index(of: oldest.stream) else { continue }
            let bytes = streams[index].window?.byteCount ?? 0
            guard streams[index].forgetEvent(upTo: oldest.offset) else { continue }
            windowByteCount += (streams[index].window?.byteCount ?? 0) - bytes
            windowEvents -= 1
        }
        if evictions.needsSweep(live: windowEvents) {
            let streams = streams
            evictions.sweep { streams[$0.stream]?.holds($0.offset) == true }
        }
    }
}

/// An entry of the eviction order of windows. Stale once the event has left its window.
private struct WindowedEvent {
    let stream: StreamID
    let offset: Int64
}

/// An entry of the order in which streams are dropped. Stale once somebody subscribes to the stream again.
private struct LingeringStream {
    let stream: StreamID
    let linger: UInt32
    let since: Instant
}
