import Bytes

/// The two forms of a stream's channel name.
@frozen public enum StreamForm: Hashable, Sendable, CaseIterable {
    /// `user.<id>.<topic>`: a public channel to stock clients, guarded by name in the hub.
    case user
    /// `private-user.<id>.<topic>`: what clients that insist on an auth endpoint use.
    case privateUser

    /// What stands before the id.
    package var prefix: StaticString {
        switch self {
        case .user: "user."
        case .privateUser: "private-user."
        }
    }
}

/// Why a name that begins like a stream's is refused.
package enum StreamNameError: Error, Equatable, Sendable {
    /// Longer than `StreamName.maximumBytes`.
    case tooLong
    /// No topic, or one with other characters than `a`…`z` and underscore.
    case invalidTopic
    /// Nothing between the prefix and the topic.
    case emptyUser
    /// Not what `format` would write: lower-case digits, a needless escape, a broken one, a bare odd character.
    case notCanonical
    /// The escapes do not make UTF-8.
    case invalidUTF8
}

/// A stream as the name of a channel: `user.<id>.<topic>`, in one of two forms.
///
/// In the id, `=` itself and every UTF-8 byte outside `[-A-Za-z0-9_@,.;]` is written `=XX`, upper case. The topic is
/// what follows the LAST dot, so ids may hold dots. Only the canonical spelling is a name: otherwise two channels would
/// be one stream, or two users one channel.
public struct StreamName: Hashable, Sendable {
    /// Longest name in bytes, that of any Pusher channel (server libraries allow 200).
    package static let maximumBytes = 200

    // In this order, for it is kept with others that fill the gap behind it.
    /// The stream.
    public let stream: StreamID
    /// Which form it is.
    public let form: StreamForm

    /// The name of `stream` in `form`; `format()` tells whether it can be written.
    package init(form: StreamForm, stream: StreamID) {
        self.form = form
        self.stream = stream
    }

    /// A channel's name that is a stream's, as it lies in a message: valid while that does.
    package struct Text {
        /// Which form it is.
        package let form: StreamForm
        /// The whole name.
        package let bytes: UnsafeRawBufferPointer
        fileprivate let user: UnsafeRawBufferPointer
        fileprivate let topic: UnsafeRawBufferPointer
        /// Whether the user's id has escapes. What it stands for is read when it is asked for: kept here, it would make a value
        /// that owns nothing one to be destroyed, for each name that is read.
        fileprivate let isEscaped: Bool

        /// Reads a channel's name: nil when it has neither prefix and so is an ordinary channel.
        package init?(_ name: UnsafeRawBufferPointer) throws(StreamNameError) {
            if name.hasPrefix(StreamForm.user.prefix) {
                form = .user
            } else if name.hasPrefix(StreamForm.privateUser.prefix) {
                form = .privateUser
            } else {
                return nil
            }
            guard name.count <= maximumBytes else { throw .tooLong }
            let rest = name.part(form.prefix.utf8CodeUnitCount..<name.count)
            // A topic has no dot, so the last dot is what stands before its characters, seen from the end.
            var start = rest.count
            while start > 0, isTopicCharacter(rest[start &- 1]) { start &-= 1 }
            guard start > 0, start < rest.count, rest[start &- 1] == UInt8(ascii: ".") else { throw .invalidTopic }
            topic = rest.part(start..<rest.count)
            guard start > 1 else { throw .emptyUser }
            user = rest.part(0..<start &- 1)
            // Without an escape it is ASCII, and what it stands for: nearly always.
            isEscaped = !user.isName(isUnreserved)
            if isEscaped { try withUnescaped(user) { _ in }.get() }
            bytes = name
        }

        /// Whether it is a stream of the user with the id `id`, byte for byte.
        package func belongs(to id: UnsafeRawBufferPointer) -> Bool {
            guard isEscaped else { return user.equals(id) }
            return (try? withUnescaped(user) { $0.equals(id) }.get()) ?? false
        }

        /// The stream.
        fileprivate var stream: StreamID {
            guard isEscaped else { return StreamID(user: user, topic: topic, isPlain: true) }
            let stream = try? withUnescaped(user) { StreamID(user: $0, topic: topic) }.get()
            // `init` has read it once, so the empty id, which is nobody's, is never taken.
            return stream ?? StreamID(user: UnsafeRawBufferPointer(start: nil, count: 0), topic: topic)
        }
    }

    /// What `text` stands for.
    package init(_ text: Text) {
        form = text.form
        stream = text.stream
    }

    /// Reads a channel's name: nil when it has neither prefix and so is an ordinary channel.
    package static func parse(_ name: UnsafeRawBufferPointer) throws(StreamNameError) -> StreamName? {
        try Text(name).map { StreamName($0) }
    }

    /// Reads a channel's name, as above.
    package static func parse(_ name: String) throws(StreamNameError) -> StreamName? {
        var name = name
        let result: Result<StreamName?, StreamNameError> = name.withUTF8 { bytes in
            do throws(StreamNameError) {
                return .success(try parse(UnsafeRawBufferPointer(bytes)))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// The name; nil when the user is empty, the topic is none, or the name would be too long.
    package func format() -> String? {
        var writer = ByteWriter(capacity: 64)
        return append(to: &writer) ? writer.string : nil
    }

    /// Appends the name; false, and nothing appended, where `format` is nil. All of its characters are ASCII, and none
    /// needs an escape in JSON.
    package func append(to writer: inout ByteWriter) -> Bool {
        let start = writer.count
        // Nearly always: it came as a name, which needs no second look.
        let isPlain = stream.isPlain
        guard isPlain || isNameable else { return false }
        writer.append(form.prefix)
        stream.withUser { user in
            if isPlain { writer.append(user) } else { StreamName.append(escaping: user, to: &writer) }
        }
        writer.append(UInt8(ascii: "."))
        stream.withTopic { writer.append($0) }
        guard writer.count - start <= StreamName.maximumBytes else {
            writer.truncate(to: start)
            return false
        }
        return true
    }

    private var isNameable: Bool {
        stream.withTopic(StreamName.isTopic) && stream.withUser { 1...StreamName.maximumBytes ~= $0.count }
    }

    /// The stream's hash, another for each form.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        stream._rawHashValue(seed: form == .user ? seed : ~seed)
    }

    /// Of the same form and stream.
    @inlinable public static func == (left: StreamName, right: StreamName) -> Bool {
        left.form == right.form && left.stream == right.stream
    }

    /// True for `[a-z_]+`.
    package static func isTopic(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count > 0 else { return false }
        for byte in bytes { guard isTopicCharacter(byte) else { return false } }
        return true
    }

    private static func isTopicCharacter(_ byte: UInt8) -> Bool { byte &- 0x61 < 26 || byte == UInt8(ascii: "_") }

    /// Appends a user's id as it stands in a name.
    package static func append(escaping user: String, to writer: inout ByteWriter) {
        var user = user
        user.withUTF8 { append(escaping: UnsafeRawBufferPointer($0), to: &writer) }
    }

    /// Appends a user's id, given as UTF-8, as it stands in a name.
    package static func append(escaping user: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        guard !user.isName(isUnreserved) else { return writer.append(user) }
        for byte in user {
            if isUnreserved(byte) {
                writer.append(byte)
            } else {
                writer.append(UInt8(ascii: "="))
                writer.append(Hex.upperDigit(byte >> 4))
                writer.append(Hex.upperDigit(byte & 0xF))
            }
        }
    }

    /// Calls `body` with the user's id that `text` stands for, if it is its canonical spelling.
    private static func withUnescaped<Value>(
        _ text: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Value
    ) -> Result<Value, StreamNameError> {
        withUnsafeTemporaryAllocation(byteCount: max(1, text.count), alignment: 1) { room in
            var count = 0
            var at = 0
            while at < text.count {
                var byte = text[at]
                if isUnreserved(byte) {
                    at &+= 1
                } else {
                    guard byte == UInt8(ascii: "="), text.count - at >= 3, let high = upperHex(text[at &+ 1]),
                        let low = upperHex(text[at &+ 2])
                    else { return .failure(.notCanonical) }
                    byte = high << 4 | low
                    guard !isUnreserved(byte) else { return .failure(.notCanonical) }
                    at &+= 3
                }
                room[count] = byte
                count &+= 1
            }
            let user = UnsafeRawBufferPointer(rebasing: room[..<count])
            return UTF8Validator.isValid(user) ? .success(body(user)) : .failure(.invalidUTF8)
        }
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        // One bit for each ASCII character: the tests hold them against the alphabet.
        let bits: UInt64 = byte < 64 ? 0x0BFF_7000_0000_0000 : 0x07FF_FFFE_87FF_FFFF
        return byte < 0x80 && bits >> UInt64(byte & 63) & 1 == 1
    }

    private static func upperHex(_ byte: UInt8) -> UInt8? {
        byte &- 0x61 < 6 ? nil : byte.hexValue
    }
}
