import Bytes
import Clock
import HubEngine
import Pusher
import Reactor
import Sync
import WebSocket

/// What a loop remembers of its last events, for the console: their way from the feed to the sockets of its subscribers.
/// Kinds, sizes and times; no data. Nil in a hub without a console, where an event costs one look at that.
///
/// All memory is taken at once, and the oldest entry is overwritten: nothing is allocated for an event or a delivery. The
/// first subscribers of an event are noted, at most `receiversMax`; a crowd in an ordinary channel is only counted.
///
/// An event is written when the connection has sent as many bytes as were queued with it (`WriteQueue.sentCount`). That is
/// looked at when the tick has flushed its connections, and again with each question.
///
/// Worst interleavings, each with its test in `EventTraceTests`:
/// - The socket takes nothing when the tick ends: the event waits, and is found written, without a time, when it is asked
///   about later.
/// - TLS has sealed the event, so that it counts as sent, and the socket takes nothing. While anything sealed is unsent, an
///   event that waits is not called written.
/// - The connection ends before, and another one takes its slot: the generation tells them apart, and the event was never
///   written.
/// - An event's place is taken by a newer one while the event waits: the way has then only what is known of the present.
/// - The database is restored, and counts again from an older number: two events have one number. Each entry has its epoch,
///   and a way has one of them.
final class EventTrace: EventSource {
    /// An event that came to its stream's owner, on this loop.
    struct Homed {
        let stream: StreamID
        /// Nil where nobody is in the stream.
        let epoch: Epoch?
        let offset: Int64
        let name: String
        let byteCount: Int
        /// `min` where it is unknown.
        let committedAt: Instant
        let readAt: Instant
        let homedAt: Instant
    }

    /// An event that was queued to this loop's subscribers.
    struct Told {
        let name: StreamName
        let epoch: Epoch?
        let offset: Int64
        let at: Instant
        let subscriberCount: Int
        /// Those noted.
        let receiverCount: Int
    }

    /// One of them.
    struct Receiver {
        enum State {
            case queued
            case written(Instant)
            /// Its queue was too full: it is fed by pages of the log.
            case behind
        }

        var id = SessionID(slot: .max, generation: 0)
        var socket = SocketID(random: 0)
        /// `WriteQueue.sentCount` when the event is sent.
        var sentCount: UInt32 = 0
        var state = State.behind
    }

    /// A session that was let in to a stream, or all that are in it were told that it goes on elsewhere.
    struct Joined {
        let stream: StreamID
        /// `everybody` for all. An optional one would take a word more.
        let id: SessionID
        let at: Instant
        /// Where the stream stood.
        let position: StreamPosition
        /// So many events up to there were replayed to it; -1: what it missed cannot be had.
        let replayedCount: Int64

        static let everybody = SessionID(slot: .max, generation: 0)

        var isLost: Bool { replayedCount < 0 }

        func isOf(_ session: SessionID) -> Bool { id == session || id == Self.everybody }
    }

    /// An event that a backend or a client sent to an ordinary channel that this loop owns.
    struct Published {
        let app: Int
        let channel: ChannelName
        let name: String
        let byteCount: Int
        let at: Instant
        let isOfClient: Bool
    }

    static let receiversMax = 8
    /// Of each kind: 1.3 MB for each loop.
    static let entriesMax = 2_048

    private(set) var homed: TraceRing<Homed>
    private(set) var told: TraceRing<Told>
    private(set) var joined: TraceRing<Joined>
    private(set) var published: TraceRing<Published>
    /// `receiversMax` for each entry of `told`.
    private var receivers: ContiguousArray<Receiver>
    private let loop: EventLoop
    /// When the outputs being handled were read.
    var readAt = Instant.min
    /// Entries of `told` that were queued in this tick.
    private var unsettled = 0
    private var isLast = false

    init(on loop: EventLoop, entries: Int = entriesMax) throws(ReactorError) {
        self.loop = loop
        homed = TraceRing(entries)
        told = TraceRing(entries)
        joined = TraceRing(entries)
        published = TraceRing(entries)
        receivers = ContiguousArray(repeating: Receiver(), count: entries * Self.receiversMax)
        super.init()
        try loop.add(self)
    }

    // MARK: On the way of an event

    @inline(never)
    func homes(_ event: StreamEvent, in epoch: Epoch?) {
        homed.append(
            Homed(
                stream: event.stream, epoch: epoch, offset: event.offset, name: event.name, byteCount: event.data.count,
                committedAt: Instant(nanoseconds: event.committedAt), readAt: readAt, homedAt: .read()))
    }

    /// The event was queued to these subscribers, except those in `slow`.
    @inline(never)
    func tells(
        _ name: StreamName, _ epoch: Epoch?, _ offset: Int64, _ subscribers: SubscriberList, slow: [SessionID]
    ) {
        let first = told.nextIndex * Self.receiversMax
        var count = 0
        for id in subscribers {
            if count == Self.receiversMax { break }
            guard let connection = loop.connection(id), let session = connection.session else { continue }
            let output = connection.transport.output
            receivers[first + count] = Receiver(
                id: id, socket: session.socketID,
                sentCount: output.sentCount &+ UInt32(truncatingIfNeeded: output.byteCount),
                state: slow.contains(id) ? .behind : .queued)
            count += 1
        }
        told.append(
            Told(
                name: name, epoch: epoch, offset: offset, at: .read(), subscriberCount: subscribers.count,
                receiverCount: count))
        unsettled = min(unsettled + 1, told.capacity)
        loop.markDirty(self)
    }

    func joins(_ answer: StreamJoined, _ stream: StreamID) {
        let replayed: Int64
        switch answer.outcome {
        case .fresh: replayed = 0
        case .recovered(let count, _): replayed = count
        case .lost: replayed = -1
        // The next page of a replay that is noted already.
        case .page: return
        }
        joined.append(
            Joined(
                stream: stream, id: answer.session, at: .read(), position: answer.position, replayedCount: replayed))
    }

    /// All that are in the stream are told that what they miss up to `position` cannot be had.
    func resets(_ stream: StreamID, to position: StreamPosition) {
        joined.append(
            Joined(stream: stream, id: Joined.everybody, at: .read(), position: position, replayedCount: -1))
    }

    func publishes(_ name: String, _ byteCount: Int, to channel: ChannelName, of app: Int, isOfClient: Bool) {
        published.append(
            Published(
                app: app, channel: channel, name: name, byteCount: byteCount, at: .read(), isOfClient: isOfClient))
    }

    // MARK: After the writes

    /// The connections that the tick has written to come before this source only if it is the last one: so it goes to the
    /// end of the line once.
    override func tickEnded() {
        guard isLast else {
            isLast = true
            return loop.markDirty(self)
        }
        isLast = false
        let now = Instant.read()
        for back in 0..<unsettled {
            guard let entry = told[newest: back] else { break }
            let first = told.index(newest: back) * Self.receiversMax
            for index in first..<first + entry.receiverCount where isWritten(receivers[index]) {
                receivers[index].state = .written(now)
            }
        }
        unsettled = 0
    }

    /// Whether all of it has left since it was queued.
    private func isWritten(_ receiver: Receiver) -> Bool {
        // The queue of one that is being closed may have been dropped.
        guard case .queued = receiver.state, let connection = loop.connection(receiver.id), !connection.hasEnded,
            connection.webSocket?.isOpen == true || connection.isEventStream
        else { return false }
        guard connection.transport.tls?.hasUnsent != true else { return false }
        return Int32(bitPattern: connection.transport.output.sentCount &- receiver.sentCount) >= 0
    }

    // MARK: Questions

    /// The noted receivers of the entry, and whether each has it now.
    func receivers(newest back: Int) -> [(receiver: Receiver, isWritten: Bool)] {
        guard let entry = told[newest: back] else { return [] }
        let first = told.index(newest: back) * Self.receiversMax
        return receivers[first..<first + entry.receiverCount].map { receiver in
            if case .written = receiver.state { return (receiver, true) }
            return (receiver, isWritten(receiver))
        }
    }
}
