import Bytes

// Sync: streams of events, their names and positions on the wire; actions and their answers.
//
// Purpose: one vocabulary for hub and client. A stream belongs to one user and one topic. Its name is a Pusher channel name;
// two users never share one, whatever their ids are. Invariant: `StreamName.parse` accepts exactly what `format` writes. The
// hub reads only the fields of an action that it needs; the rest is passed on as JSON text. Depends on Bytes and JSON.

/// A stream of events: one topic of one user.
///
/// One word that copies share: each stream is in about six tables of the hub, and is looked up in all of them.
public struct StreamID: Hashable, TableKey, @unchecked Sendable {
    // @unchecked Sendable: only `init` writes the text, before it is shared.
    @usableFromInline let text: StreamText

    /// The stream of `topic` for `user`. It may have no name: see `StreamName.format`.
    package init(user: String, topic: String) {
        var user = user
        var topic = topic
        self = user.withUTF8 { user in
            topic.withUTF8 { topic in
                StreamID(user: UnsafeRawBufferPointer(user), topic: UnsafeRawBufferPointer(topic))
            }
        }
    }

    /// The stream of `topic` for `user`, both given as valid UTF-8.
    ///
    /// - Parameter isPlain: true when both are known to need no escapes in names; false when unknown.
    package init(user: UnsafeRawBufferPointer, topic: UnsafeRawBufferPointer, isPlain: Bool = false) {
        self.init(user: .copy(user), topic: topic, isPlain: isPlain)
    }

    /// The stream of `topic` for the user whose id is shared with it.
    package init(user: SharedBytes, topic: UnsafeRawBufferPointer, isPlain: Bool = false) {
        text = StreamText.make(user, topic, isPlain)
    }

    /// This stream, with `user`, the id of its user, shared.
    package func sharing(_ user: SharedBytes) -> StreamID {
        if user === sharedUser { return self }
        return withTopic { StreamID(user: user, topic: $0, isPlain: isPlain) }
    }

    /// The id of its user, for others to share.
    package var sharedUser: SharedBytes { text.withUnsafeMutablePointerToHeader { $0.pointee.user } }

    /// The user's id, any non-empty text.
    package var user: String { withUser { $0.string } }
    /// The topic, `[a-z_]+`.
    package var topic: String { withTopic { $0.string } }

    /// Calls `body` with the UTF-8 of the user's id.
    @inlinable @inline(__always)
    public func withUser<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        text.withUnsafeMutablePointerToHeader { $0.pointee.user.withUnsafeBytes(body) }
    }

    /// Calls `body` with the UTF-8 of the topic.
    @inlinable @inline(__always)
    public func withTopic<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        text.withUnsafeMutablePointers { header, bytes in
            body(UnsafeRawBufferPointer(start: bytes, count: header.pointee.topicCount))
        }
    }

    /// Whether both texts are known to need no escapes in names.
    var isPlain: Bool { text.withUnsafeMutablePointerToHeader { $0.pointee.bits & 1 == 1 } }

    /// Whether both have the same topic.
    package func hasSameTopic(as other: StreamID) -> Bool {
        withTopic { topic in other.withTopic { $0.equals(topic) } }
    }

    // Swift compares text by canonical equivalence, PostgreSQL and channel names by bytes. Two encodings of "é" are two
    // users.

    /// Compares bytes.
    @inlinable public static func == (left: StreamID, right: StreamID) -> Bool {
        left.code == right.code && (left.text === right.text || left.hasSameText(as: right))
    }

    @usableFromInline func hasSameText(as other: StreamID) -> Bool {
        withUser { user in other.withUser { $0.equals(user) } }
            && withTopic { topic in other.withTopic { $0.equals(topic) } }
    }

    /// A hash of both texts, computed once; it differs between processes.
    @inlinable public var code: UInt32 { text.withUnsafeMutablePointerToHeader { $0.pointee.code } }

    /// Hashes bytes.
    @inlinable public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    /// Called by the standard library's tables. `code` is already a keyed hash, and hashing it again would cost four times
    /// the rest of a look-up. Each table's seed prevents clustering when one table is filled in another's order.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        Int(truncatingIfNeeded: KeyedHash.mix(UInt64(code), UInt64(truncatingIfNeeded: seed)))
    }
}

/// The allocation of a `StreamID`: the topic's bytes. The user's are shared with the user's connection and other streams.
@usableFromInline final class StreamText: ManagedBuffer<StreamText.Header, UInt8> {
    @usableFromInline struct Header {
        // 14 bytes, to save memory for each stream: with a topic of ten letters, a block of 48.
        @usableFromInline let user: SharedBytes
        @usableFromInline let code: UInt32
        /// The number of the topic's bytes, twice, and one more if both texts are known to need no escapes in names.
        @usableFromInline let bits: UInt16

        @inlinable var topicCount: Int { Int(truncatingIfNeeded: bits >> 1) }
    }

    fileprivate static func make(_ user: SharedBytes, _ topic: UnsafeRawBufferPointer, _ isPlain: Bool) -> StreamText {
        // A name has at most 200 bytes, and the database 64 for a topic. What is longer by far than both names nothing.
        let topic = topic.part(0..<min(topic.count, Int(UInt16.max) >> 1))
        let code = KeyedHash.hash(topic, seed: user.withUnsafeBytes { KeyedHash.hash($0) })
        let header = Header(
            user: user, code: UInt32(truncatingIfNeeded: code), bits: UInt16(topic.count) << 1 | (isPlain ? 1 : 0))
        let buffer = StreamText.create(minimumCapacity: topic.count) { _ in header }
        buffer.withUnsafeMutablePointerToElements {
            UnsafeMutableRawBufferPointer(start: $0, count: topic.count).copyMemory(from: topic)
        }
        return unsafeDowncast(buffer, to: StreamText.self)
    }
}
