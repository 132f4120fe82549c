import Bytes

/// The two forms of a stream's channel name.
@frozen public enum StreamForm: Hashable, Sendable, CaseIterable {
    /// `user.<id>.<topic>`: a public channel for stock clients, protected by the hub because of its name.
    case user
    /// `private-user.<id>.<topic>`: for clients that require an auth endpoint.
    case privateUser

    /// The text before the id.
    package var prefix: StaticString {
        switch self {
        case .user: "user."
        case .privateUser: "private-user."
        }
    }
}

/// Why a name that begins like a stream's is refused.
package enum StreamNameError: Error, Equatable, Sendable {
    case tooLong
    /// The topic is missing, or has characters other than `a`…`z` and underscore.
    case invalidTopic
    case emptyUser
    /// Not what `format` would write: lower-case digits, a needless or broken escape, or an unescaped special character.
    case notCanonical
    case invalidUTF8
}

/// A stream as a channel name, `user.<id>.<topic>`, in one of two forms.
///
/// In the id, `=` and every UTF-8 byte outside `[-A-Za-z0-9_@,.;]` is written `=XX`, upper case. The topic follows the LAST
/// dot, so ids may contain dots. Only the canonical spelling is valid: otherwise two channels could be one stream, or two
/// users one channel.
public struct StreamName: Hashable, Sendable {
    /// Longest name in bytes, as for any Pusher channel (server libraries allow 200).
    package static let maximumBytes = 200

    // In this order: other fields then fill the padding after `form`.
    /// The stream.
    public let stream: StreamID
    /// Which form it is.
    public let form: StreamForm

    /// The name of `stream` in `form`; `format()` tells whether it can be written.
    package init(form: StreamForm, stream: StreamID) {
        self.form = form
        self.stream = stream
    }

    /// A stream's channel name in a message's buffer: valid as long as the buffer.
    package struct Text {
        /// The form.
        package let form: StreamForm
        /// The whole name.
        package let bytes: UnsafeRawBufferPointer
        fileprivate let user: UnsafeRawBufferPointer
        fileprivate let topic: UnsafeRawBufferPointer
        /// Whether the user's id has escapes. It is unescaped only on demand: stored here, it would make this a type that
        /// needs destruction, for each name read.
        fileprivate let isEscaped: Bool

        /// Reads a channel name; nil for an ordinary channel, with neither prefix.
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
            // A topic has no dot, so the last dot precedes the topic's characters, found from the end.
            let start = StreamName.startOfTopic(rest)
            guard start > 0, start < rest.count, rest[start &- 1] == UInt8(ascii: ".") else { throw .invalidTopic }
            topic = rest.part(start..<rest.count)
            guard start > 1 else { throw .emptyUser }
            user = rest.part(0..<start &- 1)
            // Nearly always: without escapes, it is ASCII and stands for itself.
            isEscaped = !user.isName(isUnreserved)
            if isEscaped { try withUnescaped(user) { _ in }.get() }
            bytes = name
        }

        /// Whether it is a stream of the user `id`, compared byte for byte.
        package func belongs(to id: UnsafeRawBufferPointer) -> Bool {
            guard isEscaped else { return user.equals(id) }
            // Each escape stands for fewer bytes.
            guard id.count < user.count else { return false }
            return (try? withUnescaped(user) { $0.equals(id) }.get()) ?? false
        }

        /// Whether it is this name.
        package func isName(of name: StreamName) -> Bool {
            form == name.form && name.stream.withTopic { topic.equals($0) } && name.stream.withUser { belongs(to: $0) }
        }

        fileprivate var stream: StreamID {
            guard isEscaped else { return StreamID(user: user, topic: topic, isPlain: true) }
            let stream = try? withUnescaped(user) { StreamID(user: $0, topic: topic) }.get()
            // Never the empty id, which no user has: `init` has already unescaped it once.
            return stream ?? StreamID(user: UnsafeRawBufferPointer(start: nil, count: 0), topic: topic)
        }
    }

    /// The name that `text` holds.
    package init(_ text: Text) {
        form = text.form
        stream = text.stream
    }

    /// The name that `text` holds, of the user with this id (`Text.belongs`), which the stream shares.
    package init(_ text: Text, of user: SharedBytes) {
        form = text.form
        stream = StreamID(user: user, topic: text.topic, isPlain: !text.isEscaped)
    }

    /// Reads a channel name; nil for an ordinary channel, with neither prefix.
    package static func parse(_ name: UnsafeRawBufferPointer) throws(StreamNameError) -> StreamName? {
        try Text(name).map { StreamName($0) }
    }

    /// Reads a channel name; nil for an ordinary channel.
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

    /// The name; nil when the user is empty, the topic is invalid, or the name would be too long.
    package func format() -> String? {
        var writer = ByteWriter(capacity: 64)
        return append(to: &writer) ? writer.string : nil
    }

    /// Appends the name. False, with nothing appended, when `format` is nil. The name is ASCII without JSON escapes.
    package func append(to writer: inout ByteWriter) -> Bool {
        let start = writer.count
        // Nearly always true: the stream was read from a name.
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

    /// The stream's hash, different for each form.
    @inlinable public func _rawHashValue(seed: Int) -> Int {
        stream._rawHashValue(seed: form == .user ? seed : ~seed)
    }

    /// Compares form and stream.
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

    /// Where the characters of a topic begin that stand at the end. Eight bytes at a time, as in `endOfPlainName`.
    @inline(__always) private static func startOfTopic(_ bytes: UnsafeRawBufferPointer) -> Int {
        var start = bytes.count
        if let base = bytes.baseAddress {
            while start >= 8 {
                let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: start &- 8, as: UInt64.self))
                let others = othersThanOfTopics(word)
                if others != 0 { return start &- others.leadingZeroBitCount / 8 }
                start &-= 8
            }
        }
        while start > 0, isTopicCharacter(bytes[start &- 1]) { start &-= 1 }
        return start
    }

    /// Sets the high bit of each byte that is no character of a topic. No sum carries into the next byte.
    @inline(__always) private static func othersThanOfTopics(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highBits: UInt64 = 0x8080_8080_8080_8080
        let ascii = word & ~highBits
        let letters = (ascii &+ 0x1F &* ones) ^ (ascii &+ 0x05 &* ones)
        let underscore = (ascii &+ 0x21 &* ones) ^ (ascii &+ 0x20 &* ones)
        return (~(letters ^ underscore) | word) & highBits
    }

    /// Appends a user's id, escaped for a name.
    package static func append(escaping user: String, to writer: inout ByteWriter) {
        var user = user
        user.withUTF8 { append(escaping: UnsafeRawBufferPointer($0), to: &writer) }
    }

    /// Appends a user's id, given as UTF-8, escaped for a name.
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

    /// Calls `body` with the unescaped id if `text` is its canonical spelling.
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
        // One bit for each ASCII character. Tests check them against the alphabet.
        let bits: UInt64 = byte < 64 ? 0x0BFF_7000_0000_0000 : 0x07FF_FFFE_87FF_FFFF
        return byte < 0x80 && bits >> UInt64(byte & 63) & 1 == 1
    }

    private static func upperHex(_ byte: UInt8) -> UInt8? {
        byte &- 0x61 < 6 ? nil : byte.hexValue
    }
}
