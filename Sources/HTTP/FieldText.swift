/// The character classes of heads, eight bytes a step: most of a request is decided by whole words.
enum FieldText {
    /// True when `range` holds what a field's value may hold: no control but the tab (RFC 9110 §5.5).
    static func isValue(_ range: Range<Int>, of bytes: UnsafeRawBufferPointer) -> Bool {
        check(range, of: bytes, suspects: controls, allows: { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 })
    }

    /// True when `range` holds what a request target may hold: visible ASCII, no fragment (RFC 9112 §3.2).
    static func isTarget(_ range: Range<Int>, of bytes: UnsafeRawBufferPointer) -> Bool {
        check(
            range, of: bytes,
            suspects: { controls($0) | zeros($0 ^ 0x20 &* ones) | zeros($0 ^ 0x23 &* ones) | $0 },
            allows: { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") })
    }

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highBits: UInt64 = 0x8080_8080_8080_8080

    /// The high bit set in each zero byte; also in bytes above one, which only costs a second look.
    @inline(__always) private static func zeros(_ word: UInt64) -> UInt64 { (word &- ones) & ~word }

    @inline(__always) private static func controls(_ word: UInt64) -> UInt64 {
        ((word &- 0x20 &* ones) & ~word) | zeros(word ^ 0x7F &* ones)
    }

    @inline(__always) private static func check(
        _ range: Range<Int>, of bytes: UnsafeRawBufferPointer, suspects: (UInt64) -> UInt64, allows: (UInt8) -> Bool
    ) -> Bool {
        guard let base = bytes.baseAddress else { return range.isEmpty }
        var at = range.lowerBound
        while at < range.upperBound {
            if at &+ 8 <= range.upperBound,
                suspects(base.loadUnaligned(fromByteOffset: at, as: UInt64.self)) & highBits == 0
            {
                at &+= 8
                continue
            }
            let end = min(at &+ 8, range.upperBound)
            while at < end {
                guard allows(bytes[at]) else { return false }
                at &+= 1
            }
        }
        return true
    }
}
