import Sync

/// A request of an owning loop to the feed. All requests about one stream come from one loop, in order.
package enum FeedRequest: Sendable {
    /// Answer with the stream's position, read after this request, and deliver all events above it.
    ///
    /// A second watch of a stream starts anew: only the newest `serial` is answered. Where a client `isBack` with a position
    /// in the stream, it goes before those that begin.
    case watch(StreamID, serial: UInt32, isBack: Bool = false)
    /// Deliver no more events of the stream.
    case unwatch(StreamID)
    /// Answer with a page of a watched stream's log, by `page` or `unreadable`. Answers may come in another order than
    /// requests. A read on a lost connection waits for the next one, but not for ever.
    case read(StreamRead)
    /// This process has committed events without a NOTIFY: read the tail now.
    case wake
}

/// What the feed tells the loops that own streams. For one stream: `positioned`, then its events in order. Offsets rise by
/// one, unless a `reset` comes between.
package enum FeedOutput: Sendable, Equatable {
    /// The answer to the watch with that serial.
    case positioned(StreamID, serial: UInt32, StreamPosition)
    /// A refused watch.
    case refused(StreamID, serial: UInt32, StreamRefusal)
    /// The next event of a watched stream.
    case event(StreamEvent)
    /// The events up to `position` are unavailable: the database was restored or replaced, or they are older than the
    /// retained log. Offsets continue from `position`; clients must fetch anew.
    case reset(StreamID, StreamPosition)
    /// Events of a read, without a gap from `after` + 1, perhaps not up to `upTo`. Empty exactly when `upTo` is `after`.
    case page(StreamRead, [StreamEvent])
    /// A read without an answer.
    case unreadable(StreamRead, StreamReadFailure)
    /// These users' access was revoked. All current revocations come on every connect, and then new ones. For every loop.
    case revoked([Revocation])
    /// Whether all revocations that stood at the last connect were delivered, and new ones follow; sent on change, false at
    /// first. While it is false, nobody knows who is revoked. For every loop.
    case revocationsCurrent(Bool)
    /// All topics published at any time since the feed started; sent when first known and on change. For every loop.
    case topics(PublishedTopics)
    /// Whether an outage has lasted `degradedAfter`, and missed events are not read yet; sent on change, false at first.
    /// For every loop.
    case degraded(Bool)
    /// The feed's own state has changed. For the sink only.
    case status(FeedStatus)
}

extension FeedOutput {
    /// The receiver of an output.
    package enum Receiver: Sendable, Equatable {
        /// The stream's shard.
        case shard(StreamID)
        case everyLoop
        /// Only the sink.
        case nobody
    }

    /// The receiver of this output.
    package var receiver: Receiver {
        switch self {
        case .event(let event): .shard(event.stream)
        case .positioned(let stream, _, _), .refused(let stream, _, _), .reset(let stream, _): .shard(stream)
        case .page(let read, _), .unreadable(let read, _): .shard(read.stream)
        case .revoked, .revocationsCurrent, .topics, .degraded: .everyLoop
        case .status: .nobody
        }
    }
}

/// The state of the feed.
package enum FeedStatus: Sendable, Equatable {
    /// No database: watches wait, and no events come.
    case away
    /// The database is up, and missed events are being read.
    case catchingUp
    /// Events come as they are committed.
    case live
    /// Events come late, by polling: the listening connection is down, or hears nothing.
    case polling
}

/// Where the feed's outputs go. Called on the feed's thread.
package struct FeedSink: Sendable {
    /// Takes outputs in order; must not block.
    package let deliver: @Sendable ([FeedOutput]) -> Void
    let backlog: @Sendable () -> Int

    /// - Parameters:
    ///   - deliver: takes outputs in order; must not block.
    ///   - backlog: how many messages the receivers have not handled; above the limit the feed reads no events.
    package init(
        deliver: @escaping @Sendable ([FeedOutput]) -> Void, backlog: @escaping @Sendable () -> Int
    ) {
        self.deliver = deliver
        self.backlog = backlog
    }
}
