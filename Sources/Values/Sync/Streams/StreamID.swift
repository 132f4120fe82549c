import Bytes

// Sync: streams of events, their names on the wire and the places in them; actions and their answers.
//
// Purpose: one vocabulary for hub and client. A stream belongs to one user and one topic; its name is a Pusher channel
// name, and no two users can share one, whatever their ids hold. Invariant: `StreamName.parse` accepts exactly what
// `format` writes. An action is read as far as the hub must know it; the rest is JSON text, handed on as it came.
// Depends on Bytes and JSON.

/// A stream of events: those of one topic for one user.
///
/// One word, which its copies share: a stream stands in half a dozen tables of the hub, and is looked up as often on its
/// way through them.
public struct StreamID: Hashable, TableKey, @unchecked Sendable {
    // @unchecked Sendable: the text is written by `init` alone, before anybody else has it.
    @usableFromInline let text: StreamText

    /// The stream of `topic` for `user`; whether it has a name is for `StreamName.format` to say.
    package init(user: String, topic: String) {
        var user = user
        var topic = topic
        self = user.withUTF8 { user in
            topic.withUTF8 { topic in
                StreamID(user: UnsafeRawBufferPointer(user), topic: UnsafeRawBufferPointer(topic))
            }
        }
    }

    /// The stream of `topic` for `user`, both given as UTF-8, which must be well formed.
    ///
    /// - Parameter isPlain: known to stand in names as they are; false says nothing.
    package init(user: UnsafeRawBufferPointer, topic: UnsafeRawBufferPointer, isPlain: Bool = false) {
        text = StreamText.make(user, topic, isPlain)
    }

    /// The user's id, any non-empty text.
    package var user: String { withUser { $0.string } }
    /// The topic, `[a-z_]+`.
    package var topic: String { withTopic { $0.string } }

    /// Calls `body` with the UTF-8 of the user's id.
    @inlinable @inline(__always)
    public func withUser<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        text.withUnsafeMutablePointers { header, bytes in
            body(UnsafeRawBufferPointer(start: bytes, count: Int(header.pointee.userCount)))
        }
    }

    /// Calls `body` with the UTF-8 of the topic.
    @inlinable @inline(__always)
    public func withTopic<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        text.withUnsafeMutablePointers { header, bytes in
            let start = Int(header.pointee.userCount)
            return body(UnsafeRawBufferPointer(start: bytes + start, count: Int(header.pointee.count) &- start))
        }
    }

    /// Whether it is known that both texts stand in names as they are, with no escape.
    var isPlain: Bool { text.withUnsafeMutablePointerToHeader { $0.pointee.isPlain } }

    /// Whether both are of one topic.
    package func hasSameTopic(as other: StreamID) -> Bool {
        withTopic { topic in other.withTopic { $0.equals(topic) } }
    }

    // Swift compares text by canonical equivalence, PostgreSQL and the channel names by bytes: "é" in two spellings is
    // two users there, and must be two here.

    /// Byte for byte.
    @inlinable public static func == (left: StreamID, right: StreamID) -> Bool {
        left.code == right.code && (left.text === right.text || left.hasSameText(as: right))
    }

    @usableFromInline func hasSameText(as other: StreamID) -> Bool {
        withUser { user in other.withUser { $0.equals(user) } }
            && withTopic { topic in other.withTopic { $0.equals(topic) } }
    }

    /// A hash of both texts, computed once; another in each process.
    @inlinable public var code: UInt32 { text.withUnsafeMutablePointerToHeader { $0.pointee.code } }

    /// Byte for byte.
    @inlinable public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    /// What the standard library's tables ask for: the code is a keyed hash already, and hashing it once more would cost
    /// four times the rest of a look-up. The seed of each table keeps one that is filled in another's order from clustering.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        Int(truncatingIfNeeded: KeyedHash.mix(UInt64(code), UInt64(truncatingIfNeeded: seed)))
    }
}

/// The one allocation behind a `StreamID`: the user's bytes, then the topic's.
@usableFromInline final class StreamText: ManagedBuffer<StreamText.Header, UInt8> {
    @usableFromInline struct Header {
        // Small, for one is kept for each stream; no text of ours or of PostgreSQL's has 4 GB.
        @usableFromInline let code: UInt32
        @usableFromInline let userCount: UInt32
        @usableFromInline let count: UInt32
        @usableFromInline let isPlain: Bool
    }

    fileprivate static func make(
        _ user: UnsafeRawBufferPointer, _ topic: UnsafeRawBufferPointer, _ isPlain: Bool
    ) -> StreamText {
        let code = KeyedHash.hash(topic, seed: KeyedHash.hash(user))
        let count = user.count + topic.count
        let header = Header(
            code: UInt32(truncatingIfNeeded: code), userCount: UInt32(user.count), count: UInt32(count),
            isPlain: isPlain)
        let buffer = StreamText.create(minimumCapacity: count) { _ in header }
        buffer.withUnsafeMutablePointerToElements { target in
            let target = UnsafeMutableRawBufferPointer(start: target, count: count)
            target.copyMemory(from: user)
            UnsafeMutableRawBufferPointer(rebasing: target[user.count...]).copyMemory(from: topic)
        }
        return unsafeDowncast(buffer, to: StreamText.self)
    }
}
