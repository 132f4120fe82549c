import Bytes

/// The kinds of JSON value.
public enum JSONKind: Sendable {
    case object, array, string, number, `true`, `false`, null
}

/// One validated value, as the bytes of its text.
///
/// It points into the text that was read: copy what must outlive that text.
public struct JSONValue {
    /// The kind.
    public let kind: JSONKind
    /// For a string: whether its text contains backslashes.
    @usableFromInline let hasEscapes: Bool
    /// The value's whole text; a string's includes the quotes.
    public let bytes: UnsafeRawBufferPointer
    /// Its byte offset in the text.
    package let offset: Int

    /// Parses `text`, which holds one value; blanks around it are allowed.
    package static func parse(
        _ text: UnsafeRawBufferPointer, maxDepth: Int = JSONLimits.defaultDepth
    ) throws(JSONError) -> JSONValue {
        var scanner = JSONScanner(text)
        scanner.skipBlanks()
        let value = try scanner.skipValue(depth: maxDepth)
        try scanner.expectEnd()
        return value
    }

    /// The error when a reader needs another kind of value.
    package var wrongKind: JSONError { JSONError(.wrongKind, at: offset) }

    // MARK: Strings

    /// The bytes between the quotes of a string without escapes; otherwise nil. The fast way to read a name.
    @inlinable public var plainBytes: UnsafeRawBufferPointer? {
        guard kind == .string, !hasEscapes else { return nil }
        return bytes.part(1..<bytes.count - 1)
    }

    /// True for a string with exactly these characters, with or without escapes.
    @inlinable @inline(__always) public func equals(_ literal: StaticString) -> Bool {
        if let plainBytes { return plainBytes.equals(literal) }
        return kind == .string && unescapedEquals(literal)
    }

    @usableFromInline func unescapedEquals(_ literal: StaticString) -> Bool {
        unescaped().withUnsafeBytes { $0.equals(literal) }
    }

    /// The characters of a string; otherwise nil.
    package var string: String? {
        guard kind == .string else { return nil }
        if let plainBytes { return plainBytes.string }
        return String(unsafeUninitializedCapacity: bytes.count) { unescape(into: UnsafeMutableRawBufferPointer($0)) }
    }

    /// Calls `body` with the UTF-8 of a string's characters; nil for other kinds. Copies only if there are escapes.
    @inlinable public func withCharacters<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        guard kind == .string else { return nil }
        if let plainBytes { return body(plainBytes) }
        return unescaped().withUnsafeBytes { body($0) }
    }

    /// The UTF-8 of a string's characters as an array; nil for other kinds.
    package var characters: [UInt8]? {
        guard kind == .string else { return nil }
        if let plainBytes { return [UInt8](plainBytes) }
        return unescaped()
    }

    // MARK: Numbers

    /// The value of an integer without fraction or exponent that fits `Int64`; otherwise nil.
    package var integer: Int64? {
        guard kind == .number else { return nil }
        let isNegative = bytes[0] == UInt8(ascii: "-")
        guard let magnitude = bytes.part((isNegative ? 1 : 0)..<bytes.count).decimalValue else { return nil }
        return isNegative ? -Int64(magnitude) : Int64(magnitude)
    }

    // MARK: Containers

    /// A reader of an object's members.
    package func object(maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) -> JSONObjectReader {
        guard kind == .object else { throw wrongKind }
        return try JSONObjectReader(bytes, maxDepth: maxDepth)
    }

    /// A reader of an array's elements.
    package func array(maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) -> JSONArrayReader {
        guard kind == .array else { throw wrongKind }
        return try JSONArrayReader(bytes, maxDepth: maxDepth)
    }

    @usableFromInline func unescaped() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: bytes.count) { room, count in
            count = unescape(into: UnsafeMutableRawBufferPointer(room))
        }
    }

    /// Writes a string's characters to `room` and returns their byte count. `room` is as long as the text, which suffices:
    /// no escape is shorter than its character. No step can fail, because the string is validated.
    private func unescape(into room: UnsafeMutableRawBufferPointer) -> Int {
        var scanner = JSONScanner(bytes.part(1..<bytes.count - 1))
        var count = 0
        while let byte = scanner.current {
            if byte != UInt8(ascii: "\\") {
                room[count] = byte
                count &+= 1
                scanner.position &+= 1
                continue
            }
            guard let character = try? scanner.skipEscape(), let scalar = Unicode.Scalar(character) else {
                preconditionFailure("escapes were validated when the value was read")
            }
            for unit in UTF8.encode(scalar) ?? UTF8.EncodedScalar() {
                room[count] = unit
                count &+= 1
            }
        }
        return count
    }
}
