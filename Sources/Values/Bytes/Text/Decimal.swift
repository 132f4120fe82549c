/// Decimal numbers, written eight digits at a time.
package enum Decimal {
    /// The room that `write` needs for any number.
    package static let roomBytes = 24

    /// Writes the digits of `number` to `target` and returns their count. May overwrite `roomBytes` bytes of it.
    package static func write(_ number: UInt64, to target: UnsafeMutableRawPointer) -> Int {
        if number < 10 {
            target.storeBytes(of: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: number), as: UInt8.self)
            return 1
        }
        // The longest number has 20 digits: eight bytes are written at 0, 4 and 12.
        let (upper, lower) = number.quotientAndRemainder(dividingBy: 100_000_000)
        let count = upper > 0 ? write(upper, to: target) : 0
        let digits = eightDigits(lower)
        let zeros = upper > 0 ? 0 : Swift.min(digits.trailingZeroBitCount / 8, 7)
        let text = (digits | 0x3030_3030_3030_3030) >> UInt64(zeros &* 8)
        (target + count).storeBytes(of: text.littleEndian, as: UInt64.self)
        return count &+ 8 &- zeros
    }

    /// The eight digits of a number below 10^8, one a byte, the first in the lowest byte. All are divided at once, by
    /// 10,000, by 100, then by 10; the factors are exact for so few digits.
    private static func eightDigits(_ number: UInt64) -> UInt64 {
        let (upper, lower) = number.quotientAndRemainder(dividingBy: 10_000)
        let fours = lower << 32 | upper
        let hundreds = (fours &* 10_486) >> 20 & 0x0000_007F_0000_007F
        let pairs = (fours &- hundreds &* 100) << 16 | hundreds
        let tens = (pairs &* 103) >> 10 & 0x000F_000F_000F_000F
        return (pairs &- tens &* 10) << 8 | tens
    }
}
