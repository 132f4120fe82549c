import Bytes

/// Escaping: turns UTF-8 text into the inside of a JSON string.
package enum JSONEscape {
    /// Sets the high bit of the first byte that needs an escape (quote, backslash, control), and perhaps of later bytes.
    @inline(__always) static func mask(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let control = (word &- ones &* 0x20) & ~word
        return (((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | control) & 0x8080_8080_8080_8080
    }

    /// The index of the first byte from `start` on that is a quote, a backslash, a control or not ASCII; `text.count` when
    /// there is none. Eight bytes at a time.
    package static func endOfPlain(_ text: UnsafeRawBufferPointer, from start: Int) -> Int {
        var at = start
        let count = text.count
        if let base = text.baseAddress {
            while at &+ 8 <= count {
                let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                let special = mask(word) | word & 0x8080_8080_8080_8080
                if special != 0 { return at &+ special.trailingZeroBitCount / 8 }
                at &+= 8
            }
        }
        while at < count {
            let byte = text[at]
            if byte < 0x20 || byte >= 0x80 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return at }
            at &+= 1
        }
        return at
    }

    /// Sets the high bit of exactly the bytes that need an escape.
    @inline(__always) static func exactMask(_ word: UInt64) -> UInt64 {
        let low: UInt64 = 0x7F7F_7F7F_7F7F_7F7F
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        // A sum's high bit stays clear where the low seven bits are zero (quote, backslash) or below a space.
        let isOther = ((quote & low &+ low) | quote) & ((backslash & low &+ low) | backslash)
        return ~(isOther & ((word & low &+ 0x6060_6060_6060_6060) | word)) & 0x8080_8080_8080_8080
    }

    /// Most bytes of an escape: two backslashes and `u001f`.
    static let escapeBytesMax = 7

    /// Writes the escape of a byte that needs one, and returns its length. With `twice`, the JSON text itself becomes a
    /// string: each inner backslash is then doubled, and an escaped quote or backslash gets a backslash of its own.
    @inline(__always) static func write(escapeOf byte: UInt8, _ twice: Bool, to room: UnsafeMutableRawPointer) -> Int {
        guard byte >= 0x20 else { return write(control: byte, twice, to: room) }
        guard twice else {
            room.storeBytes(of: (0x5C | UInt16(byte) << 8).littleEndian, as: UInt16.self)
            return 2
        }
        room.storeBytes(of: (0x5C_5C5C | UInt32(byte) << 24).littleEndian, as: UInt32.self)
        return 4
    }

    @inline(never) private static func write(
        control byte: UInt8, _ twice: Bool, to room: UnsafeMutableRawPointer
    ) -> Int {
        let backslashes = twice ? 2 : 1
        room.storeBytes(of: 0x5C5C, as: UInt16.self)
        let name = room + backslashes
        let letter: UInt8? =
            switch byte {
            case 0x08: UInt8(ascii: "b")
            case 0x09: UInt8(ascii: "t")
            case 0x0A: UInt8(ascii: "n")
            case 0x0C: UInt8(ascii: "f")
            case 0x0D: UInt8(ascii: "r")
            default: nil
            }
        if let letter {
            name.storeBytes(of: letter, as: UInt8.self)
            return backslashes + 1
        }
        name.copyMemory(from: "u00", byteCount: 3)
        name.storeBytes(of: Hex.digit(byte >> 4), toByteOffset: 3, as: UInt8.self)
        name.storeBytes(of: Hex.digit(byte & 0xF), toByteOffset: 4, as: UInt8.self)
        return backslashes + 5
    }

    /// The last bytes of `text` from `at` on, at most seven: the first in the lowest byte, filled with zeros.
    @inline(__always) static func lastWord(of text: UnsafeRawBufferPointer, from at: Int) -> UInt64 {
        if let base = text.baseAddress, text.count >= 8 {
            let last = base.loadUnaligned(fromByteOffset: text.count &- 8, as: UInt64.self)
            return UInt64(littleEndian: last) >> UInt64((at &+ 8 &- text.count) &* 8)
        }
        var word: UInt64 = 0
        for index in (at..<text.count).reversed() { word = word << 8 | UInt64(text[index]) }
        return word
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

    /// Appends the inside of a JSON string, eight bytes at a time when nothing needs an escape.
    ///
    /// Event data, itself JSON, becomes the string that Pusher's clients expect.
    package mutating func append(jsonEscaping text: UnsafeRawBufferPointer) { append(escaping: text, twice: false) }

    /// Appends the inside of a JSON string in a JSON text that itself becomes a string: escapes twice.
    package mutating func append(jsonEscapingTwice text: String) {
        var text = text
        text.withUTF8 { append(jsonEscapingTwice: UnsafeRawBufferPointer($0)) }
    }

    /// Appends the inside of a JSON string in a JSON text that itself becomes a string. `text` is UTF-8.
    package mutating func append(jsonEscapingTwice text: UnsafeRawBufferPointer) {
        append(escaping: text, twice: true)
    }

    @inline(__always) private mutating func append(escaping text: UnsafeRawBufferPointer, twice: Bool) {
        guard let base = text.baseAddress else { return }
        reserve(text.count + text.count / 4 + 8)
        var at = 0
        while at &+ 8 <= text.count {
            append(escaping: UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self)), 8, twice)
            at &+= 8
        }
        if at < text.count { append(escaping: JSONEscape.lastWord(of: text, from: at), text.count &- at, twice) }
    }

    /// Appends `count` bytes of a word, the lowest first.
    @inline(__always) private mutating func append(escaping word: UInt64, _ count: Int, _ twice: Bool) {
        var marks = JSONEscape.exactMask(word)
        guard marks != 0 else {
            return append(capacity: 8) { room in
                room.storeBytes(of: word.littleEndian, as: UInt64.self)
                return count
            }
        }
        append(capacity: 8 &* JSONEscape.escapeBytesMax &+ 8) { room in
            guard let base = room.baseAddress else { return 0 }
            var (word, left, end) = (word, count, base)
            while marks != 0 {
                let plain = marks.trailingZeroBitCount / 8
                // The zeros after the text.
                guard plain < left else { break }
                // Stores the whole word; bytes after the plain ones are overwritten later.
                end.storeBytes(of: word.littleEndian, as: UInt64.self)
                end += plain
                word = word &>> UInt64(plain &* 8)
                end += JSONEscape.write(escapeOf: UInt8(truncatingIfNeeded: word), twice, to: end)
                word = word &>> 8
                marks = (marks &>> UInt64(plain &* 8)) &>> 8
                left &-= plain &+ 1
            }
            end.storeBytes(of: word.littleEndian, as: UInt64.self)
            return end + left - base
        }
    }
}
