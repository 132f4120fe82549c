import Bytes

/// A connection's id on the wire: `123.456`, digits on both sides (server libraries check `^\d+\.\d+$`).
///
/// The caller draws 64 random bits, so ids are unguessable and unique across nodes: among a million, two are equal with a
/// probability of 3 in 10^8. They are no longer because every signed text contains one and is hashed 64 bytes at a time.
/// Each half, ours or not, stays below 2^53, so clients may read it as a number.
package struct SocketID: Hashable, Sendable {
    /// The number before the dot, below 2^53.
    package let high: UInt64
    /// The number after the dot, below 2^53.
    package let low: UInt64

    /// An id of 64 random bits, half of them on each side of the dot.
    package init(random: UInt64) {
        high = random >> 32
        low = random & 0xFFFF_FFFF
    }

    /// The id of these numbers; nil from 2^53 on.
    package init?(high: UInt64, low: UInt64) {
        guard high < 1 << 53, low < 1 << 53 else { return nil }
        (self.high, self.low) = (high, low)
    }

    /// Reads an id in the format of `append`; nil for leading zeros, other characters and numbers from 2^53 on.
    package init?(_ text: UnsafeRawBufferPointer) {
        guard let dot = text.firstIndex(of: UInt8(ascii: "."), from: 0),
            let high = SocketID.number(text.part(0..<dot)), let low = SocketID.number(text.part(dot + 1..<text.count))
        else { return nil }
        self.high = high
        self.low = low
    }

    /// Appends the id, at most 33 bytes.
    package func append(to writer: inout ByteWriter) {
        writer.append(decimal: high)
        writer.append(UInt8(ascii: "."))
        writer.append(decimal: low)
    }

    func withText<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 2 * Decimal.roomBytes, alignment: 8) { room in
            guard let base = room.baseAddress else { preconditionFailure("room of a fixed size") }
            // At most 16 digits and the dot, so there is room for the second number.
            var count = Decimal.write(high, to: base)
            room[count] = UInt8(ascii: ".")
            count &+= 1
            count &+= Decimal.write(low, to: base + count)
            return body(UnsafeRawBufferPointer(rebasing: room[..<count]))
        }
    }

    /// The id as text.
    package var string: String { "\(high).\(low)" }

    private static func number(_ digits: UnsafeRawBufferPointer) -> UInt64? {
        guard let value = digits.decimalValue, value >> 53 == 0 else { return nil }
        guard digits.count == 1 || digits[0] != UInt8(ascii: "0") else { return nil }
        return UInt64(value)
    }
}
