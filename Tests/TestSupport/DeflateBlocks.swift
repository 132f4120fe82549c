/// Handmade DEFLATE blocks (RFC 1951 §3.2), bit by bit: no compressor makes them, but zlib reads them.
package struct DeflateBlocks {
    private var bytes: [UInt8] = []
    private var bits: UInt64 = 0
    private var bitCount = 0

    package init() {}

    /// A message's payload (RFC 7692 §7.2.1): ends with the first bits of the empty block whose rest senders omit.
    package var message: [UInt8] {
        var copy = self
        copy.put(0, 3)
        copy.align()
        return copy.bytes
    }

    /// Bytes so far, rounded down.
    package var count: Int { bytes.count }

    /// A block without compression: 5 bytes, some bits, and `plain`.
    package mutating func stored(_ plain: [UInt8] = []) {
        put(0, 3)
        align()
        put(UInt64(plain.count), 16)
        put(UInt64(~UInt16(plain.count)), 16)
        bytes += plain
    }

    /// A block with the fixed codes: 10 bits, and 8 or 9 for each byte.
    package mutating func fixed(_ plain: [UInt8] = [], isFinal: Bool = false) {
        put(isFinal ? 0b011 : 0b010, 3)
        for byte in plain {
            if byte < 144 { huffman(0x30 + UInt64(byte), 8) } else { huffman(0x190 + UInt64(byte) - 144, 9) }
        }
        huffman(0, 7)
        if isFinal { align() }
    }

    /// The shortest empty block with codes of its own: 92 bits.
    package mutating func dynamic() {
        begin(literals: 257, distances: 1, lengths: [18: 2, 1: 2, 0: 1])
        huffman(0b11, 2)
        put(138 - 11, 7)
        huffman(0b11, 2)
        put(118 - 11, 7)
        huffman(0b10, 2)
        huffman(0, 1)
        huffman(0, 1)
    }

    /// A block with the maximum number of codes, and `plain` (bytes below 226, 8 bits each): 29 bytes.
    package mutating func tables(_ plain: [UInt8] = []) {
        begin(literals: 286, distances: 30, lengths: [16: 1, 4: 3, 5: 3, 8: 3, 9: 3])
        lengths(0b110, 226)
        lengths(0b111, 60)
        lengths(0b100, 2)
        lengths(0b101, 28)
        for byte in plain { huffman(UInt64(byte), 8) }
        huffman(482, 9)
    }

    /// Writes a code length `count` times: once, and then by repetitions.
    private mutating func lengths(_ code: UInt64, _ count: Int) {
        huffman(code, 3)
        var left = count - 1
        while left > 0 {
            if left < 3 {
                huffman(code, 3)
                left -= 1
            } else {
                huffman(0, 1)
                put(UInt64(min(left, 6) - 3), 2)
                left -= min(left, 6)
            }
        }
    }

    private mutating func begin(literals: UInt64, distances: UInt64, lengths: [Int: UInt64]) {
        put(0b100, 3)
        put(literals - 257, 5)
        put(distances - 1, 5)
        let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
        let count = order.lastIndex { lengths[$0] != nil }.map { $0 + 1 } ?? 4
        put(UInt64(count) - 4, 4)
        for symbol in order[..<count] { put(lengths[symbol] ?? 0, 3) }
    }

    /// Codes are written with their highest bit first, everything else with the lowest.
    private mutating func huffman(_ code: UInt64, _ count: Int) {
        for bit in (0..<count).reversed() { put(code >> UInt64(bit) & 1, 1) }
    }

    private mutating func put(_ value: UInt64, _ count: Int) {
        bits |= value << UInt64(bitCount)
        bitCount += count
        while bitCount >= 8 {
            bytes.append(UInt8(truncatingIfNeeded: bits))
            bits >>= 8
            bitCount -= 8
        }
    }

    private mutating func align() {
        if bitCount > 0 { put(0, 8 - bitCount) }
    }
}
