import Bytes
import Sync

/// A session asks a stream's home for something. Answered by one `StreamJoined` of the same serial.
package struct StreamJoin: Sendable {
    /// What is asked. Boxed but for the most common: a message to a loop stays small.
    package indirect enum Purpose: Sendable, Hashable {
        /// To be let in, from now on.
        case subscribe
        /// Of a session that is in: the events behind the place that its client names.
        case resume(from: StreamPosition)
        /// Of a session that was handed a page up to this place, or fell behind there: the next page.
        case next(after: StreamPosition)
    }

    package let name: StreamName
    package let session: SessionID
    package let serial: UInt32
    package let purpose: Purpose

    package init(name: StreamName, session: SessionID, serial: UInt32, purpose: Purpose = .subscribe) {
        self.name = name
        self.session = session
        self.serial = serial
        self.purpose = purpose
    }
}

/// The home's answer. `position` is where the stream stood when the home gave it: every event above that offset is
/// broadcast behind this answer, by the same mailbox, and none at or below.
package struct StreamJoined: Sendable {
    package indirect enum Outcome: Sendable {
        /// Let in at `position`.
        case fresh
        /// `replayed` events lie between what the client had and `position`; the first page of them, nil for none.
        case recovered(replayed: Int64, StreamPage?)
        /// The next page, nil where there is nothing up to `position`.
        case page(StreamPage?)
        /// What lies between cannot be had: the session goes on at `position`.
        case lost(ResumeLoss)
    }

    package let session: SessionID
    package let serial: UInt32
    package let position: StreamPosition
    package let outcome: Outcome

    package init(session: SessionID, serial: UInt32, position: StreamPosition, outcome: Outcome = .fresh) {
        self.session = session
        self.serial = serial
        self.position = position
        self.outcome = outcome
    }
}

/// Events of a stream that follow one another.
package struct StreamPage: Sendable {
    package let messages: SharedMessages
    /// The offset of the last of them.
    package let last: Int64

    package init(messages: SharedMessages, last: Int64) {
        self.messages = messages
        self.last = last
    }
}

/// Why a stream goes on for a client without what it missed: it must fetch a snapshot (design: the wire extension).
package enum ResumeLoss: String, Sendable, CaseIterable {
    /// The stream has another life than the one whose offset the client named.
    case streamReset = "stream_reset"
    /// The log does not reach back so far.
    case positionExpired = "position_expired"
    /// The client names an offset that has not been reached in this life of the stream.
    case ahead = "ahead"
    /// More events than are replayed at once.
    case tooMany = "too_many"
    /// The log cannot be read at present: ask again later, from the same place.
    case storeUnavailable = "store_unavailable"
    /// No stream of this client's.
    case forbidden = "forbidden"
}
