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

    /// Where in `text` the first byte lies, from `start` on, that is a quote, a backslash, a control or not ASCII; behind its
    /// end where there is none. Eight bytes a step.
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

    /// The last bytes of `text`, from `at` on, seven at most: the first is the lowest, and zeros fill the word.
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

    /// Appends the inside of a JSON string: eight bytes a step where nothing needs an escape.
    ///
    /// This is how event data, itself JSON, becomes the string that Pusher's clients expect.
    package mutating func append(jsonEscaping text: UnsafeRawBufferPointer) { append(escaping: text, twice: false) }

    /// Appends the inside of a JSON string that stands in JSON text, which itself becomes a string: two levels at once.
    package mutating func append(jsonEscapingTwice text: String) {
        var text = text
        text.withUTF8 { append(jsonEscapingTwice: UnsafeRawBufferPointer($0)) }
    }

    /// Appends the inside of a JSON string that stands in JSON text, which itself becomes a string; `text` is UTF-8.
    package mutating func append(jsonEscapingTwice text: UnsafeRawBufferPointer) {
        append(escaping: text, twice: true)
    }

    @inline(__always) private mutating func append(escaping text: UnsafeRawBufferPointer, twice: Bool) {
        guard let base = text.baseAddress else { return }
        reserve(text.count + text.count / 4 + 8)
        var at = 0
        while at &+ 8 <= text.count {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
            at &+= append(escaping: word, count: 8, twice: twice)
        }
        while at < text.count {
            at &+= append(escaping: JSONEscape.lastWord(of: text, from: at), count: text.count &- at, twice: twice)
        }
    }

    /// Appends bytes of a word, `count` at most, up to and with the first that needs an escape; returns how many.
    @inline(__always) private mutating func append(escaping word: UInt64, count: Int, twice: Bool) -> Int {
        let plain = min(JSONEscape.mask(word).trailingZeroBitCount / 8, count)
        // The whole word is stored; what lies behind the byte that needs an escape is overwritten.
        append(capacity: 8) { room in
            room.storeBytes(of: word.littleEndian, as: UInt64.self)
            return plain
        }
        guard plain < count else { return count }
        // The backslash of the inner level needs one of its own.
        if twice {
            append(UInt8(ascii: "\\"))
            append(UInt8(ascii: "\\"))
        }
        append(jsonEscape: UInt8(truncatingIfNeeded: word >> UInt64(plain &* 8)), twice: twice)
        return plain &+ 1
    }

    @inline(__always) private mutating func append(jsonEscape byte: UInt8, twice: Bool) {
        // What a control is called needs no second escape.
        if byte >= 0x20 || !twice { append(UInt8(ascii: "\\")) }
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
