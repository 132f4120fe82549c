/// Character classes of message heads, eight bytes at a time: whole words decide most of a request.
enum FieldText {
    /// True when `range` is a valid field value: no control character except tab (RFC 9110 §5.5).
    static func isValue(_ range: Range<Int>, of bytes: UnsafeRawBufferPointer) -> Bool {
        check(range, of: bytes, suspects: controls, allows: { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 })
    }

    /// True when `range` is a valid request target: visible ASCII, no fragment (RFC 9112 §3.2).
    static func isTarget(_ range: Range<Int>, of bytes: UnsafeRawBufferPointer) -> Bool {
        check(
            range, of: bytes,
            suspects: { controls($0) | zeros($0 ^ 0x20 &* ones) | zeros($0 ^ 0x23 &* ones) | $0 },
            allows: { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") })
    }

    /// The end of the token that begins at the lower bound of `range`: its first non-token character.
    @inline(__always) static func endOfToken(_ range: Range<Int>, of bytes: UnsafeRawBufferPointer) -> Int {
        guard let base = bytes.baseAddress else { return range.lowerBound }
        var at = range.lowerBound
        while at < range.upperBound {
            if at &+ 8 <= bytes.count {
                let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                at = min(at &+ (lettersAndHyphens(word) ^ highBits).trailingZeroBitCount / 8, range.upperBound)
            }
            guard at < range.upperBound, bytes[at].isTokenCharacter else { break }
            at &+= 1
        }
        return at
    }

    /// Sets the high bit of each byte that is a letter or hyphen: most field names consist of these.
    @inline(__always) private static func lettersAndHyphens(_ word: UInt64) -> UInt64 {
        let ascii = word & ~highBits
        let lower = ascii | 0x20 &* ones
        let letters = (lower &+ 0x1F &* ones) & ~(lower &+ 0x05 &* ones)
        let others = (ascii ^ 0x2D &* ones) &+ 0x7F &* ones
        return (letters | ~others) & ~word & highBits
    }

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highBits: UInt64 = 0x8080_8080_8080_8080

    /// Sets the high bit of each zero byte. Other bytes may also be flagged, which only costs a second check.
    @inline(__always) private static func zeros(_ word: UInt64) -> UInt64 { (word &- ones) & ~word }

    @inline(__always) private static func controls(_ word: UInt64) -> UInt64 {
        ((word &- 0x20 &* ones) & ~word) | zeros(word ^ 0x7F &* ones)
    }

    @inline(__always) private static func check(
        _ range: Range<Int>, of bytes: UnsafeRawBufferPointer, suspects: (UInt64) -> UInt64, allows: (UInt8) -> Bool
    ) -> Bool {
        guard let base = bytes.baseAddress else { return range.isEmpty }
        var at = range.lowerBound
        while at &+ 8 <= range.upperBound {
            if suspects(base.loadUnaligned(fromByteOffset: at, as: UInt64.self)) & highBits != 0 {
                for index in at..<at &+ 8 { guard allows(bytes[index]) else { return false } }
            }
            at &+= 8
        }
        if at < range.upperBound, at &+ 8 <= bytes.count {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
            // Bytes after the range are shifted out of the last word.
            if (suspects(word) & highBits) << UInt64((at &+ 8 &- range.upperBound) &* 8) == 0 { return true }
        }
        while at < range.upperBound {
            guard allows(bytes[at]) else { return false }
            at &+= 1
        }
        return true
    }
}
