import Sync

/// What an owning loop asks of the feed. Of one stream, all requests come from one loop, in order.
package enum FeedRequest: Sendable {
    /// Answer with the stream's position, read after this request, and hand over all events above it.
    ///
    /// A second watch of a stream begins anew: only the answer that carries the newest `serial` is given.
    case watch(StreamID, serial: UInt32)
    /// Hand over no more of the stream.
    case unwatch(StreamID)
    /// Answer with a page of the log of a watched stream, by `page` or `unreadable`. Answers may come in another order
    /// than requests; a read that meets a lost connection waits for the next one, but not for ever.
    case read(StreamRead)
    /// This process has committed events, and told no listening connection of them: look now.
    case wake
}

/// What the feed hands over. Of one stream: `positioned`, then its events in order, each offset one above the one
/// before, unless a `reset` comes between.
package enum FeedOutput: Sendable, Equatable {
    /// The answer to the watch of that serial.
    case positioned(StreamID, serial: UInt32, StreamPosition)
    /// A watch that is not taken.
    case refused(StreamID, serial: UInt32, StreamRefusal)
    /// The next event of a watched stream.
    case event(StreamEvent)
    /// The events up to `position` cannot be had: the database was restored or replaced, or they are older than what is
    /// kept. What comes next counts from there; clients must fetch anew.
    case reset(StreamID, StreamPosition)
    /// The answer to a read: events without a gap from `after` + 1 on, at least one; perhaps not all up to `upTo`. None
    /// where `upTo` is `after`, and only there.
    case page(StreamRead, [StreamEvent])
    /// A read that has no answer.
    case unreadable(StreamRead, StreamReadFailure)
    /// These users' access has been revoked. All that stands comes on every connect, and then what is new. Of no
    /// stream: for every loop.
    case revoked([Revocation])
    /// Whether all revocations that stood when the feed last connected have been handed over, and new ones follow; told
    /// where that changes, and false before. While it is false, who is revoked is not known. Of no stream: for every
    /// loop.
    case revocationsCurrent(Bool)
    /// The topics that are published, and with them those that were at any time since the feed began; told once they
    /// are known, and where they change. Of no stream: for every loop.
    case topics(PublishedTopics)
    /// Whether the database has been out of reach for a while, or what was missed meanwhile is still being read; told
    /// where that changes, and false before. Of no stream: for every loop.
    case degraded(Bool)
    /// The feed's own state has changed. Told to the sink, and to no loop.
    case status(FeedStatus)
}

extension FeedOutput {
    /// Whom an output is for.
    package enum Receiver: Sendable, Equatable {
        /// The stream's shard.
        case shard(StreamID)
        /// Every loop.
        case everyLoop
        /// Nobody beyond the sink.
        case nobody
    }

    /// Whom it is for.
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

/// How the feed is doing.
package enum FeedStatus: Sendable, Equatable {
    /// No database: watches wait for their answer, and nothing comes.
    case away
    /// The database is there and what was missed is being read.
    case catchingUp
    /// Events come as they are committed.
    case live
    /// Events come, but late, by polling: the listening connection is down, or a pooler eats its notifications.
    case polling
}

/// Where the feed's outputs go. Called on the feed's thread.
package struct FeedSink: Sendable {
    /// Takes outputs in their order; does not wait.
    package let deliver: @Sendable ([FeedOutput]) -> Void
    let backlog: @Sendable () -> Int

    /// - Parameters:
    ///   - deliver: takes outputs in their order; must not wait.
    ///   - backlog: how much of it the receivers have not dealt with; above the limit the feed reads no events.
    package init(
        deliver: @escaping @Sendable ([FeedOutput]) -> Void, backlog: @escaping @Sendable () -> Int
    ) {
        self.deliver = deliver
        self.backlog = backlog
    }
}
