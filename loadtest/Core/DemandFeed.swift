import Bytes
import Feed
import Reactor
import Sync

/// A feed that makes events on demand. Replaces the tail of a database, and like it runs on its own thread.
final class DemandFeed {
    private let loop: EventLoop
    private let data: EventData
    private let sink: FeedSink
    /// The watched streams, by the number at the end of the user's name.
    private var streams: [Int: Watched] = [:]

    /// A stream, and the number of its last event.
    private struct Watched {
        let stream: StreamID
        var top: Int64
    }

    /// Offsets with a constant number of digits, so that all frames have one size.
    private static let firstOffset: Int64 = 1_000_000_000
    private static let epoch = "demand"

    private init(_ loop: EventLoop, _ data: EventData, _ sink: FeedSink) {
        self.loop = loop
        self.data = data
        self.sink = sink
    }

    /// Starts the thread, which accepts requests for events on `socket`.
    static func start(_ data: EventData, _ socket: ListeningSocket, _ sink: FeedSink) throws -> Feed {
        let handle = try LoopHandle()
        let requests = Mailbox<FeedRequest>(handle)
        let thread = try LoopThread(name: "feed", handle: handle) { loop in
            let feed = DemandFeed(loop, data, sink)
            loop.attach(requests) { [unowned feed] in feed.received($0) }
            sink.deliver([.revocationsCurrent(true), .status(.live)])
            do {
                try loop.add(ControlListener(socket, feed), descriptor: socket.descriptor, interest: .readable)
            } catch {
                preconditionFailure("the control port cannot be watched: \(error)")
            }
            return feed
        }
        return Feed(requests, thread)
    }

    /// Makes one event in each user's stream, in that order. Users that nobody watches get none.
    func publish(_ users: [Int]) {
        var outputs: [FeedOutput] = []
        outputs.reserveCapacity(users.count)
        for user in users {
            guard let index = streams.index(forKey: user) else { continue }
            streams.values[index].top += 1
            let (stream, offset) = (streams.values[index].stream, streams.values[index].top)
            outputs.append(
                .event(StreamEvent(stream: stream, offset: offset, name: EventData.name, data: data.make(offset))))
        }
        if !outputs.isEmpty { sink.deliver(outputs) }
    }

    /// Takes over a connection that asks for events.
    func accept(_ descriptor: Int32) {
        do {
            try loop.add(ControlConnection(descriptor, self, loop), descriptor: descriptor, interest: .readable)
        } catch {
            Socket.close(descriptor)
        }
    }

    private func received(_ request: FeedRequest) {
        switch request {
        case .watch(let stream, let serial, _):
            let digits = stream.user.utf8.reversed().prefix { (0x30...0x39).contains($0) }.reversed()
            guard let number = Int(String(decoding: Array(digits), as: UTF8.self)) else {
                return sink.deliver([.refused(stream, serial: serial, .notNameable)])
            }
            let top = streams[number, default: Watched(stream: stream, top: Self.firstOffset)].top
            streams[number] = Watched(stream: stream, top: top)
            let position = StreamPosition(epoch: Self.epoch, offset: top)
            sink.deliver([.positioned(stream, serial: serial, position)])
        case .read(let read):
            // Nothing is kept: a client that falls behind is told to fetch a snapshot.
            sink.deliver([.unreadable(read, .expired)])
        case .unwatch, .wake:
            break
        }
    }
}

/// Event data, all of one size: an object with a text that fills the rest, and `_sync`.
struct EventData: Sendable {
    static let name = "occurrence.updated"
    static let bytesMin = 100
    static let bytesMax = 10_000

    private let head: SharedBytes
    private static let tail: StaticString = #","k":null}}"#

    /// Data of `bytes` bytes, from `bytesMin` to `bytesMax`, for offsets of ten digits.
    init(bytes: Int) {
        let fixed = #"{"text":"","_sync":{"o":1000000000,"k":null}}"#.utf8.count
        head = .copy(#"{"text":"\#(String(repeating: "x", count: max(0, bytes - fixed)))","_sync":{"o":"#)
    }

    func make(_ offset: Int64) -> SharedBytes {
        var writer = ByteWriter(capacity: head.count + 32)
        writer.append(head)
        writer.append(decimal: offset)
        writer.append(Self.tail)
        return writer.finish()
    }
}
