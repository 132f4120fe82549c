/// Base64 with the standard alphabet and padding (RFC 4648 §4).
package enum Base64 {
    /// Number of characters for `count` bytes.
    package static func encodedCount(_ count: Int) -> Int { (count + 2) / 3 * 4 }

    /// Appends `bytes` encoded, padded.
    package static func append(_ bytes: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        writer.append(capacity: encodedCount(bytes.count)) { target in
            var input = 0
            var output = 0
            while bytes.count &- input >= 3 {
                let group = UInt32(bytes[input]) << 16 | UInt32(bytes[input &+ 1]) << 8 | UInt32(bytes[input &+ 2])
                target[output] = character(group >> 18)
                target[output &+ 1] = character(group >> 12)
                target[output &+ 2] = character(group >> 6)
                target[output &+ 3] = character(group)
                input &+= 3
                output &+= 4
            }
            let left = bytes.count &- input
            guard left > 0 else { return output }
            let group = UInt32(bytes[input]) << 16 | (left > 1 ? UInt32(bytes[input &+ 1]) << 8 : 0)
            target[output] = character(group >> 18)
            target[output &+ 1] = character(group >> 12)
            target[output &+ 2] = left > 1 ? character(group >> 6) : padding
            target[output &+ 3] = padding
            return output &+ 4
        }
    }

    /// `bytes` as a Base64 string.
    package static func encode(_ bytes: UnsafeRawBufferPointer) -> String {
        var writer = ByteWriter(capacity: encodedCount(bytes.count))
        append(bytes, to: &writer)
        return writer.string
    }

    /// The number of bytes that `text` decodes to; nil when it is not canonical Base64. Allocates nothing.
    package static func decodedCount(_ text: UnsafeRawBufferPointer) -> Int? {
        guard text.count % 4 == 0, text.count > 0 else { return text.count == 0 ? 0 : nil }
        let pads = text[text.count - 1] != padding ? 0 : text[text.count - 2] != padding ? 1 : 2
        var last: UInt8 = 0
        for byte in text.part(0..<text.count - pads) {
            guard let bits = value(byte) else { return nil }
            last = bits
        }
        if pads == 1, last & 0b11 != 0 { return nil }
        if pads == 2, last & 0b1111 != 0 { return nil }
        return text.count / 4 * 3 - pads
    }

    private static let padding = UInt8(ascii: "=")

    @inline(__always) private static func character(_ value: UInt32) -> UInt8 {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        return alphabet.utf8Start[Int(value & 63)]
    }

    private static func value(_ character: UInt8) -> UInt8? {
        switch character {
        case 0x41...0x5A: return character &- 0x41
        case 0x61...0x7A: return character &- 0x61 &+ 26
        case 0x30...0x39: return character &- 0x30 &+ 52
        case UInt8(ascii: "+"): return 62
        case UInt8(ascii: "/"): return 63
        default: return nil
        }
    }
}
