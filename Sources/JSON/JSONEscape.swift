import Bytes

/// The writer's half: bytes that are UTF-8 text become the inside of a JSON string.
package enum JSONEscape {
    /// A word with the high bit set in (at least) the first byte that needs an escape: quote, backslash or control.
    ///
    /// Exact for that lowest byte; bytes above it may be marked falsely by a borrow.
    static func mask(_ word: UInt64) -> UInt64 {
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
        reserve(text.count + text.count / 8)
        var plain = 0
        var at = 0
        while at < text.count {
            if at &+ 8 <= text.count {
                let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                let special = JSONEscape.mask(word)
                if special == 0 {
                    at &+= 8
                    continue
                }
                at &+= special.trailingZeroBitCount / 8
            } else if text[at] >= 0x20, text[at] != UInt8(ascii: "\""), text[at] != UInt8(ascii: "\\") {
                at &+= 1
                continue
            }
            append(UnsafeRawBufferPointer(rebasing: text[plain..<at]))
            append(jsonEscape: text[at])
            at &+= 1
            plain = at
        }
        append(UnsafeRawBufferPointer(rebasing: text[plain..<at]))
    }

    private mutating func append(jsonEscape byte: UInt8) {
        append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): append(byte)
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
