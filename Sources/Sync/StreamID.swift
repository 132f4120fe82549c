import Bytes

// Sync: streams of events, their names on the wire and the places in them; actions and their answers.
//
// Purpose: one vocabulary for hub and client. A stream belongs to one user and one topic; its name is a Pusher channel
// name, and no two users can share one, whatever their ids hold. Invariant: `StreamName.parse` accepts exactly what
// `format` writes. An action is read as far as the hub must know it; the rest is JSON text, handed on as it came.
// Depends on Bytes and JSON.

/// A stream of events: those of one topic for one user.
package struct StreamID: Hashable, Sendable {
    /// The user's id, any non-empty text.
    package let user: String
    /// The topic, `[a-z_]+`.
    package let topic: String

    /// Of both texts, computed once: a stream is looked up a dozen times on its way through the hub.
    private let code: Int

    /// The stream of `topic` for `user`; whether it has a name is for `StreamName.format` to say.
    package init(user: String, topic: String) {
        self.user = user
        self.topic = topic
        var hasher = Hasher()
        var user = user
        var topic = topic
        user.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
        topic.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        code = hasher.finalize()
    }

    // Swift compares text by canonical equivalence, PostgreSQL and the channel names by bytes: "é" in two spellings is
    // two users there, and must be two here.

    /// Byte for byte.
    package static func == (left: StreamID, right: StreamID) -> Bool {
        left.code == right.code && left.topic.hasSameBytes(as: right.topic) && left.user.hasSameBytes(as: right.user)
    }

    /// Byte for byte.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }
}

/// A place in a stream. Offsets of different epochs cannot be compared.
package struct StreamPosition: Hashable, Sendable {
    /// Which life of the stream the offset belongs to.
    package let epoch: String
    /// Number of the last event, 0 before the first.
    package let offset: Int64

    /// The place behind event `offset` of `epoch`.
    package init(epoch: String, offset: Int64) {
        self.epoch = epoch
        self.offset = offset
    }
}
