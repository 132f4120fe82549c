import Bytes

/// A connection's id on the wire: `123.456`, digits on both sides (server libraries check `^\d+\.\d+$`).
///
/// Unguessable and unique over nodes because the caller draws it at random, 64 bits: that two of a
/// million are alike has a chance of 3 in 10^8. No longer, for it stands in every text that is signed, which is hashed 64 bytes at a time; and
/// each half of an id, ours or not, stays below 2^53, so that clients may take them for numbers.
package struct SocketID: Hashable, Sendable {
    /// The number before the dot, below 2^53.
    package let high: UInt64
    /// The number behind the dot, below 2^53.
    package let low: UInt64

    /// An id of 64 random bits, half of them on each side of the dot.
    package init(random: UInt64) {
        high = random >> 32
        low = random & 0xFFFF_FFFF
    }

    /// Reads an id as `append` writes it; nil for leading zeros, other characters and numbers from 2^53 on.
    package init?(_ text: UnsafeRawBufferPointer) {
        guard let dot = text.firstIndex(of: UInt8(ascii: "."), from: 0),
            let high = SocketID.number(text.part(0..<dot)), let low = SocketID.number(text.part(dot + 1..<text.count))
        else { return nil }
        self.high = high
        self.low = low
    }

    /// Appends the id to `writer`, 33 bytes at most.
    package func append(to writer: inout ByteWriter) {
        writer.append(decimal: high)
        writer.append(UInt8(ascii: "."))
        writer.append(decimal: low)
    }

    /// Calls `body` with the id's characters.
    func withText<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 2 * Decimal.roomBytes, alignment: 8) { room in
            guard let base = room.baseAddress else { preconditionFailure("room of a fixed size") }
            // 16 digits at most, and the dot, so that there is room behind them.
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
