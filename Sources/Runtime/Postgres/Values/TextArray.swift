import Bytes
import Glibc

/// A `text[]` parameter in PostgreSQL's array syntax (manual, 8.15.2). Every element but NULL is quoted.
package struct TextArray: ~Copyable {
    private var literal = ByteWriter(capacity: 256)

    /// An empty array.
    package init() {
        literal.append(UInt8(ascii: "{"))
    }

    /// Adds an element. The caller must finish with `closed()`.
    package mutating func append(_ element: String) {
        var element = element
        element.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Adds an element, given as UTF-8.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        if literal.count > 1 { literal.append(UInt8(ascii: ",")) }
        literal.append(UInt8(ascii: "\""))
        if !Self.needsEscape(bytes) {
            literal.append(bytes)
        } else {
            for byte in bytes {
                if Self.isEscaped(byte) { literal.append(UInt8(ascii: "\\")) }
                literal.append(byte)
            }
        }
        literal.append(UInt8(ascii: "\""))
    }

    /// Adds a NULL.
    package mutating func appendNull() {
        if literal.count > 1 { literal.append(UInt8(ascii: ",")) }
        for byte in "NULL".utf8 { literal.append(byte) }
    }

    private static func needsEscape(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return false }
        return memchr(start, Int32(UInt8(ascii: "\"")), bytes.count) != nil
            || memchr(start, Int32(UInt8(ascii: "\\")), bytes.count) != nil
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    /// The whole literal.
    package consuming func closed() -> String {
        literal.append(UInt8(ascii: "}"))
        return literal.string
    }
}
