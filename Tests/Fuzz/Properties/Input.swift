import Bytes

/// Numbers drawn from an input: the same for the same bytes, and others for others.
struct Draw: RandomNumberGenerator {
    private var state: UInt64

    /// A sequence of `bytes` (FNV-1a, then SplitMix64).
    init(_ bytes: [UInt8]) {
        state = 0xCBF2_9CE4_8422_2325
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}

/// Ways to cut an input in pieces: the offsets, in order, where all but the last piece end.
enum Splits {
    /// Inputs up to this size are cut at every byte, longer ones at some: one input should take no millisecond.
    private static let everywhereBytes = 16
    /// Up to this size also byte by byte.
    private static let bytewiseBytes = 256

    static func of(_ bytes: [UInt8]) -> [[Int]] {
        var draw = Draw(bytes)
        var splits: [[Int]] = []
        if bytes.count <= everywhereBytes {
            for split in 0...bytes.count { splits.append([split]) }
        } else {
            for _ in 0..<3 { splits.append([Int.random(in: 0...bytes.count, using: &draw)]) }
        }
        if bytes.count <= bytewiseBytes { splits.append(Array(0..<bytes.count)) }
        for _ in 0..<2 {
            splits.append((0..<3).map { _ in Int.random(in: 0...bytes.count, using: &draw) }.sorted())
        }
        return splits
    }
}

/// Calls `body` with `bytes` in memory of exactly their size, which it may change.
func withExactly<Result, Failure: Error>(
    _ bytes: [UInt8], _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
) throws(Failure) -> Result {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { buffer.deallocate() }
    buffer.copyBytes(from: bytes)
    return try body(buffer)
}

/// Calls `body` with `bytes` in memory of exactly their size.
func withView<Result, Failure: Error>(
    _ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
) throws(Failure) -> Result {
    try withExactly(bytes) { buffer throws(Failure) in try body(UnsafeRawBufferPointer(buffer)) }
}

/// What `write` writes.
func written(_ write: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter(capacity: 64)
    write(&writer)
    return writer.array
}

extension [UInt8] {
    /// The bytes as text, nil where they are not UTF-8: told by the standard library, not by the hub's validator.
    var strictText: String? { String(validating: self, as: UTF8.self) }
}
