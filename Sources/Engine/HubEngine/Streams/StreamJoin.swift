import Bytes
import Sync

/// A session's request to a stream's shard. Answered by one `StreamJoined` with the same serial.
package struct StreamJoin: Sendable {
    /// What is asked. All but the most common are boxed, so that a message to a loop stays small.
    package indirect enum Purpose: Sendable, Hashable {
        /// To be let in, from now on.
        case subscribe
        /// For a session that is in: the events after the position that its client names.
        case resume(from: StreamPosition)
        /// For a session that was handed a page up to this position, or fell behind there: the next page.
        case next(after: StreamPosition)
    }

    /// The stream.
    package let name: StreamName
    /// The session that asks.
    package let session: SessionID
    /// Repeated in the answer.
    package let serial: UInt32
    /// Whether the client has named a position in the stream, and so is back.
    package let isBack: Bool
    /// What is asked for.
    package let purpose: Purpose

    /// A subscribe by default.
    package init(
        name: StreamName, session: SessionID, serial: UInt32, purpose: Purpose = .subscribe, isBack: Bool = false
    ) {
        self.name = name
        self.session = session
        self.serial = serial
        self.purpose = purpose
        self.isBack = isBack
    }
}

/// The shard's answer. `position` is where the stream stood when the shard gave it. Every event above that offset is
/// broadcast after this answer, by the same mailbox, and none at or below it.
package struct StreamJoined: Sendable {
    /// What the session gets.
    package indirect enum Outcome: Sendable {
        /// Let in at `position`.
        case fresh
        /// `replayed` events lie between what the client had and `position`. The first page of them; nil for none.
        case recovered(replayed: Int64, StreamPage?)
        /// The next page; nil where there is nothing up to `position`.
        case page(StreamPage?)
        /// The events between cannot be had: the session continues at `position`.
        case lost(ResumeLoss)
    }

    /// The session that asked.
    package let session: SessionID
    /// The serial of its `StreamJoin`.
    package let serial: UInt32
    /// Where the stream stood.
    package let position: StreamPosition
    /// What the session gets.
    package let outcome: Outcome

    /// Let in at `position` by default.
    package init(session: SessionID, serial: UInt32, position: StreamPosition, outcome: Outcome = .fresh) {
        self.session = session
        self.serial = serial
        self.position = position
        self.outcome = outcome
    }
}

/// Consecutive events of a stream.
package struct StreamPage: Sendable {
    /// The events, framed once for all who asked.
    package let messages: SharedMessages
    /// The offset of the last of them.
    package let last: Int64

    /// `last` is the offset of the last event.
    package init(messages: SharedMessages, last: Int64) {
        self.messages = messages
        self.last = last
    }
}

/// Why a stream continues without what the client missed: it must fetch a snapshot (design: the wire extension).
package enum ResumeLoss: String, Sendable, CaseIterable {
    /// The stream is in another epoch than the one that the client named.
    case streamReset = "stream_reset"
    /// The log does not reach back so far.
    case positionExpired = "position_expired"
    /// The client names an offset that this epoch of the stream has not reached.
    case ahead = "ahead"
    /// More events than are replayed at once.
    case tooMany = "too_many"
    /// The log cannot be read at present: the client asks again later, from the same position.
    case storeUnavailable = "store_unavailable"
    /// Not a stream of this client.
    case forbidden = "forbidden"
}
