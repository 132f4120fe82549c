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

    /// Sixteen bytes of a text, and which of them need an escape.
    struct Block {
        let words: SIMD2<UInt64>
        /// The high bit of each byte that needs an escape; zero where none does.
        let marks: SIMD2<UInt64>
        let hasControl: Bool

        @inline(__always) init(_ text: UnsafeRawPointer) {
            let bytes = text.loadUnaligned(as: SIMD16<UInt8>.self)
            let controls = bytes .< SIMD16<UInt8>(repeating: 0x20)
            let special =
                (bytes .== SIMD16<UInt8>(repeating: 0x22)) .| (bytes .== SIMD16<UInt8>(repeating: 0x5C))
            words = unsafeBitCast(bytes, to: SIMD2<UInt64>.self)
            marks =
                unsafeBitCast(special .| controls, to: SIMD2<UInt64>.self) & SIMD2(repeating: 0x8080_8080_8080_8080)
            hasControl = unsafeBitCast(controls, to: SIMD2<UInt64>.self) != SIMD2(0, 0)
        }
    }

    /// Most bytes of an escape: two backslashes and `u001f`.
    static let escapeBytesMax = 7
    /// Blocks that are written before the room is judged again.
    static let blocksOfStep = 4
    /// Bytes of a text that `write` may read behind a block.
    static let readAhead = 8

    /// Writes the eight bytes at `text`, which have no control, and returns where the next byte goes. Reads up to seven
    /// bytes more than these, and writes up to eight more: what comes next overwrites them.
    @inline(__always) static func write(
        _ text: UnsafeRawPointer, _ marks: UInt64, _ twice: Bool, to room: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        var (marks, next) = (marks, room)
        next.storeBytes(of: text.loadUnaligned(as: UInt64.self), as: UInt64.self)
        while marks != 0 {
            let index = marks.trailingZeroBitCount &>> 3
            // What follows is written again, behind the backslashes.
            let rest = (text + index).loadUnaligned(as: UInt64.self)
            let escaped = next + index
            if twice {
                escaped.storeBytes(of: 0x5C5C_5C5C, as: UInt32.self)
                (escaped + 3).storeBytes(of: rest, as: UInt64.self)
                next += 3
            } else {
                escaped.storeBytes(of: 0x5C, as: UInt8.self)
                (escaped + 1).storeBytes(of: rest, as: UInt64.self)
                next += 1
            }
            marks &= marks &- 1
        }
        return next + 8
    }

    /// Writes blocks, each of which has `readAhead` bytes behind it, up to the first that has a control. Returns where that
    /// one begins, or the end.
    @inline(__always) static func write(
        blocks: Int, _ text: UnsafeRawPointer, _ twice: Bool, to room: inout UnsafeMutableRawPointer
    ) -> UnsafeRawPointer {
        var at = text
        let end = text + blocks &* 16
        while at < end {
            let block = Block(at)
            if block.marks == SIMD2(0, 0) {
                room.storeBytes(of: block.words, as: SIMD2<UInt64>.self)
                room += 16
            } else if block.hasControl {
                break
            } else {
                room = write(at, block.marks[0].littleEndian, twice, to: room)
                room = write(at + 8, block.marks[1].littleEndian, twice, to: room)
            }
            at += 16
        }
        return at
    }

    /// The room that `write` needs for so many blocks.
    @inline(__always) static func room(_ blocks: Int, _ twice: Bool) -> Int { blocks &* 16 &* (twice ? 4 : 2) &+ 8 }

    /// Writes a byte as it stands in a string, and returns its length. With `twice`, the JSON text itself becomes a string:
    /// each inner backslash is then doubled, and an escaped quote or backslash gets a backslash of its own.
    static func write(_ byte: UInt8, _ twice: Bool, to room: UnsafeMutableRawPointer) -> Int {
        guard byte >= 0x20 else { return write(control: byte, twice, to: room) }
        let backslashes = byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") ? (twice ? 3 : 1) : 0
        for index in 0..<backslashes { room.storeBytes(of: 0x5C, toByteOffset: index, as: UInt8.self) }
        room.storeBytes(of: byte, toByteOffset: backslashes, as: UInt8.self)
        return backslashes + 1
    }

    private static func write(control byte: UInt8, _ twice: Bool, to room: UnsafeMutableRawPointer) -> Int {
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

    /// Appends the inside of a JSON string, sixteen bytes at a time.
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
        while at &+ 16 &+ JSONEscape.readAhead <= text.count {
            let blocks = Swift.min((text.count &- at &- JSONEscape.readAhead) / 16, JSONEscape.blocksOfStep)
            let end = at &+ blocks &* 16
            append(capacity: JSONEscape.room(blocks, twice)) { room in
                guard let start = room.baseAddress else { return 0 }
                var next = start
                at = JSONEscape.write(blocks: blocks, base + at, twice, to: &next) - base
                return next - start
            }
            if at < end {
                append(eachOf: UnsafeRawBufferPointer(start: base + at, count: 16), twice)
                at &+= 16
            }
        }
        if at < text.count { append(rest: UnsafeRawBufferPointer(start: base + at, count: text.count &- at), twice) }
    }

    /// Appends fewer bytes than a block and `readAhead`.
    @inline(__always) private mutating func append(rest: UnsafeRawBufferPointer, _ twice: Bool) {
        // Blanks behind it make whole blocks of it, and are cut off again.
        var padded = (SIMD16<UInt8>(repeating: 0x20), SIMD16<UInt8>(repeating: 0x20), SIMD16<UInt8>(repeating: 0x20))
        let isPlain = Swift.withUnsafeMutableBytes(of: &padded) { padded in
            padded.copyMemory(from: rest)
            guard let base = UnsafeRawPointer(padded.baseAddress) else { return false }
            let blocks = rest.count > 16 ? 2 : 1
            var isPlain = true
            append(capacity: JSONEscape.room(blocks, twice)) { room in
                guard let start = room.baseAddress else { return 0 }
                var next = start
                isPlain = JSONEscape.write(blocks: blocks, base, twice, to: &next) == base + blocks &* 16
                return isPlain ? next - start - (blocks &* 16 &- rest.count) : 0
            }
            return isPlain
        }
        if !isPlain { append(eachOf: rest, twice) }
    }

    /// Appends a few bytes, one at a time.
    @inline(never) private mutating func append(eachOf bytes: UnsafeRawBufferPointer, _ twice: Bool) {
        append(capacity: bytes.count &* JSONEscape.escapeBytesMax) { room in
            guard let start = room.baseAddress else { return 0 }
            var used = 0
            for byte in bytes { used += JSONEscape.write(byte, twice, to: start + used) }
            return used
        }
    }
}
