import Clock
import Pusher
import Sync

/// A connection as the console shows it.
package struct SurveyedConnection: Sendable {
    /// How it speaks.
    package enum Kind: String, Sendable {
        case webSocket = "websocket"
        case eventStream = "events"
    }

    /// The loop that it is on.
    package let loop: Int
    /// The socket id that its client knows.
    package let socket: String
    /// How it speaks.
    package let kind: Kind
    /// Its app's index.
    package let app: Int
    /// The user that it is signed in as.
    package let user: String?
    /// The address that it counts for.
    package let address: String
    /// Its channels, and the names of the first of them.
    package let channelCount: Int
    /// The first names.
    package let channels: [String]
    /// Bytes queued to it that its socket has not taken.
    package let unsentBytes: Int
    /// Whether some of its streams are fed by pages of the log, because it reads slowly or is coming back.
    package let isBehind: Bool
}

/// An event as the console lists it: kinds and sizes, without its data.
package struct SurveyedEvent: Sendable {
    /// Where it came from.
    package enum Source: String, Sendable {
        case database, backend, client
    }

    /// Where it came from.
    package let source: Source
    /// Its app's index; nil for the app of the database.
    package let app: Int?
    /// The channel, without a prefix.
    package let channel: String
    /// The event's name.
    package let name: String
    /// Its number, for a stream's.
    package let offset: Int64?
    /// The epoch of the number; nil where it is unknown.
    package let epoch: String?
    /// The size of its data.
    package let byteCount: Int
    /// When it came to the channel's owner.
    package let at: Instant
    /// The start of the commit; `min` where it is unknown.
    package let committedAt: Instant
}

/// When events were committed and written, as one loop remembers it. An event's owner knows the one, each loop with
/// subscribers the other.
struct SurveyedTimes: Sendable {
    struct Event: Hashable, Sendable {
        let stream: StreamID
        let epoch: Epoch?
        let offset: Int64
    }

    var committed: [(event: Event, at: Instant)] = []
    /// One for each noted socket that took the event.
    var written: [(event: Event, at: Instant)] = []

    /// From the commit of each event to each socket, the shortest first.
    static func latencies(_ parts: [SurveyedTimes]) -> [Duration] {
        let commits = Dictionary(
            parts.flatMap(\.committed).map { ($0.event, $0.at) }, uniquingKeysWith: { first, _ in first })
        return parts.flatMap(\.written).compactMap { written in
            commits[written.event].map { written.at.duration(since: $0) }
        }.sorted()
    }
}

/// What the console wants of the list of events.
package struct SurveyedEventFilter: Sendable {
    /// A part of the event's name; empty for all.
    package var name = ""
    /// What the channel's name begins with.
    package var channel = ""
    /// The smallest size of data.
    package var bytesMin = 0
    /// The largest number of events.
    package var max = 200

    /// All events.
    package init() {}

    func takes(_ name: String, _ byteCount: Int) -> Bool {
        byteCount >= bytesMin && (self.name.isEmpty || name.contains(self.name))
    }
}

/// What one loop knows of an event's way.
package struct SurveyedWay: Sendable {
    /// The epoch of the number that this is about; nil where nobody named one and this loop knows none.
    package let epoch: Epoch?
    /// The event came to its owner, which is on this loop.
    package struct Homed: Sendable {
        /// The loop.
        package let loop: Int
        /// The event's name.
        package let name: String
        /// The size of its data.
        package let byteCount: Int
        /// The start of the commit; `min` where it is unknown.
        package let committedAt: Instant
        /// When the feed had read it.
        package let readAt: Instant
        /// When it was here.
        package let homedAt: Instant
    }

    /// A connection to which it was queued, or that is in the stream.
    package struct Device: Sendable {
        /// What is known of the event there.
        package enum State: Sendable, Equatable {
            /// The socket took all of it; when, if the loop saw it in the same tick.
            case written(Instant?)
            /// It waits for the socket.
            case queued
            /// The connection is fed by pages of the log, and this event is to come by one.
            case behind
            /// It fell behind with this event, and has caught up by pages of the log since.
            case caughtUp
            /// It was a subscriber when the event came, and left before its socket took it.
            case gone
            /// It came back later, and the event was among those replayed to it.
            case replayed
            /// It came later, at that offset, without naming an older position: a snapshot has what is before.
            case later(Int64)
            /// It came back, and was told that what it missed cannot be had.
            case lost
            /// It was in the stream when the event came, by its position; the loop's memory of the rest is gone.
            case handedOn
            /// It is in the stream now. When it came is not remembered.
            case present
        }

        /// The loop that it is on.
        package let loop: Int
        /// The socket id that its client knows.
        package let socket: String
        /// What is known of the event there.
        package let state: State
        /// When the event was queued to it, or when it came.
        package let at: Instant?
        /// Whether it is there now.
        package let isConnected: Bool
        /// Bytes that wait for its socket now.
        package let unsentBytes: Int
    }

    /// The event at its owner; nil where this loop does not remember it.
    package var homed: Homed?
    /// Where the owner stands, in whatever epoch; nil where this loop is not the owner, or nobody is in the stream.
    package var position: StreamPosition?
    /// Subscribers to which the event was queued, also those that were not noted.
    package var subscriberCount = 0
    /// Those noted, and all that are in the stream now.
    package var devices: [Device] = []
    /// Connections that are signed in as the user and not in the stream.
    package var elsewhere: [String] = []
}
