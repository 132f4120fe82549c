import Bytes

/// The writer's half: bytes that are UTF-8 text become the inside of a JSON string.
package enum JSONEscape {
    /// A word with the high bit set in (at least) the first byte that needs an escape: quote, backslash or control.
    ///
    /// Exact for that lowest byte; bytes above it may be marked falsely by a borrow.
    @inline(__always) static func mask(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let control = (word &- ones &* 0x20) & ~word
        return (((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | control) & 0x8080_8080_8080_8080
    }
}

extension ByteWriter {
    /// Appends `text` as a JSON string, quotes included. `text` is UTF-8.
    package mutating func append(jsonString text: UnsafeRawBufferPointer) {
        append(UInt8(ascii: "\""))
        append(jsonEscaping: text)
        append(UInt8(ascii: "\""))
    }

    /// Appends `text` as a JSON string, quotes included.
    package mutating func append(jsonString text: String) {
        var text = text
        text.withUTF8 { append(jsonString: UnsafeRawBufferPointer($0)) }
    }

    /// Appends the inside of a JSON string: eight bytes a step where nothing needs an escape.
    ///
    /// This is how event data, itself JSON, becomes the string that Pusher's clients expect.
    package mutating func append(jsonEscaping text: UnsafeRawBufferPointer) {
        guard let base = text.baseAddress else { return }
        reserve(text.count + text.count / 4 + 8)
        var at = 0
        while at &+ 8 <= text.count {
            let word = base.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            let special = JSONEscape.mask(UInt64(littleEndian: word))
            // The whole word is stored; what lies behind the byte that needs an escape is overwritten.
            let plain = special == 0 ? 8 : special.trailingZeroBitCount / 8
            append(capacity: 8) { room in
                room.storeBytes(of: word, as: UInt64.self)
                return plain
            }
            at &+= plain
            if special != 0 {
                append(jsonEscape: base.load(fromByteOffset: at, as: UInt8.self))
                at &+= 1
            }
        }
        while at < text.count {
            let byte = text[at]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
                append(jsonEscape: byte)
            } else {
                append(byte)
            }
            at &+= 1
        }
    }

    @inline(__always) private mutating func append(jsonEscape byte: UInt8) {
        append(UInt8(ascii: "\\"))
        if byte >= 0x20 { append(byte) } else { append(jsonControl: byte) }
    }

    private mutating func append(jsonControl byte: UInt8) {
        switch byte {
        case 0x08: append(UInt8(ascii: "b"))
        case 0x09: append(UInt8(ascii: "t"))
        case 0x0A: append(UInt8(ascii: "n"))
        case 0x0C: append(UInt8(ascii: "f"))
        case 0x0D: append(UInt8(ascii: "r"))
        default:
            append("u00")
            append(Hex.digit(byte >> 4))
            append(Hex.digit(byte & 0xF))
        }
    }
}
