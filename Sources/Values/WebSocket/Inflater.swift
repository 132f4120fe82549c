import Bytes
import CZlib

/// Decompresses messages (RFC 7692 §7.2.2), each by itself, for all connections of one loop: no connection keeps a window.
///
/// It holds 39 KiB (zlib's state and the largest window, 32 KiB) and room for one message. The room grows with the data, up
/// to the message limit and one byte; `trim` keeps at most `roomKept` bytes.
package final class Inflater {
    /// Counts since the last `takeTally`.
    package struct Tally: Sendable, Equatable {
        /// Messages decompressed.
        package var messages = 0
        /// Bytes of these messages, compressed and plain.
        package var compressedBytes = 0
        /// Bytes of these messages, plain.
        package var plainBytes = 0
        /// Messages over the limit, messages that are not DEFLATE data (RFC 1951), and messages padded with empty blocks.
        package var tooBig = 0
        /// Messages that are not DEFLATE data (RFC 1951).
        package var malformed = 0
        /// Messages padded with empty blocks.
        package var padded = 0

        /// All at zero.
        package init() {}
    }

    /// Bytes of room that are kept between messages.
    package static let roomKept = 256 << 10
    private static let roomAtFirst = 4 << 10
    /// Input is decompressed in pieces of this size and checked after each: a padded message wastes at most one piece.
    private static let pieceBytes = 4 << 10
    /// How much longer than plain a compressed message may be: an eighth of the plain length (fixed codes take at most 9
    /// bits a byte), and these bytes for what flushing leaves.
    package static let paddingBytes = 1 << 10
    /// The cost in bytes of a block with its own codes: building its tables takes 1 to 3 µs, however little data it holds.
    package static let tableCost = 512
    /// The cost in bytes of any block: it takes about 60 ns even when it holds nothing.
    package static let blockCost = 32
    /// A message may have `tablesFree` blocks with their own codes, and one more for each `bytesPerTable` plain bytes. zlib
    /// makes one for at least 127 bytes with its least memory (`memLevel` 1), and for 16,383 bytes by default.
    package static let tablesFree = 16
    /// Plain bytes for which a message may have one block more with codes of its own.
    package static let bytesPerTable = 64

    /// What was inflated and refused so far.
    package private(set) var tally = Tally()
    /// Cost of the last message in bytes: the larger of its compressed and plain lengths, plus its blocks and tables.
    package private(set) var cost = 0
    // At a fixed address: zlib's state points back to it.
    private let stream: UnsafeMutablePointer<z_stream>
    private var room = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var produced = 0
    /// Input bytes taken of the current message, its blocks, and its blocks with their own codes.
    private var taken = 0
    private var blocks = 0
    private var tables = 0
    /// The bytes that senders leave off, 00 00 FF FF: the end of an empty uncompressed block (RFC 7692 §7.2.1).
    private static let tail = UInt32(0xFFFF_0000).littleEndian

    /// Allocates zlib's state; traps if there is no memory.
    package init() {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let code = inflateInit2_(stream, -15, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(code == Z_OK, "zlib got no memory")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
        room.deallocate()
    }

    /// Decompresses `payload`. The result is valid until the next call.
    ///
    /// A message that ends with a final block (BFINAL) may lack the byte that RFC 7692 §7.2.3.4 wants after it, and an empty
    /// message may lack its one byte (§7.2.3.6): neither is ambiguous.
    /// - Parameter limit: most bytes of the message. At most one byte more is ever written.
    /// - Throws: `messageTooBig`; `malformedDeflate` when the data is not a sequence of whole blocks; `messagePadded` when
    ///   the compressed form is much too long: empty blocks cost time but no byte of the limit.
    package func inflate(_ payload: UnsafeRawBufferPointer, limit: Int) throws(WebSocketError) -> UnsafeRawBufferPointer
    {
        inflateReset(stream)
        (produced, taken, blocks, tables, cost) = (0, 0, 0, 0, 0)
        if payload.count > 0 { countBlock(payload, at: 0, unused: 0) }
        do throws(WebSocketError) {
            if payload.count > 0, try !take(payload, limit: limit) {
                // The tail does not count: the sender did not send it.
                taken -= MemoryLayout.size(ofValue: Self.tail)
                try withUnsafeBytes(of: Self.tail) { bytes throws(WebSocketError) in _ = try take(bytes, limit: limit) }
                guard isBetweenBlocks else { throw .malformedDeflate }
            }
        } catch {
            switch error {
            case .messageTooBig: tally.tooBig += 1
            case .messagePadded: tally.padded += 1
            default: tally.malformed += 1
            }
            throw error
        }
        cost = max(payload.count, produced) + blocks * Self.blockCost + tables * Self.tableCost
        tally.messages += 1
        tally.compressedBytes += payload.count
        tally.plainBytes += produced
        return UnsafeRawBufferPointer(room).part(0..<produced)
    }

    /// Bytes of room now allocated.
    package var roomBytes: Int { room.count }

    /// Returns the counts since the last call, and resets them.
    package func takeTally() -> Tally {
        defer { tally = Tally() }
        return tally
    }

    /// Frees the room that a large message took. The last message becomes invalid.
    package func trim() {
        guard room.count > Self.roomKept else { return }
        room.deallocate()
        room = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    }

    /// Takes the next bytes. True when the last of them ends a final block.
    ///
    /// Checks only at the ends of blocks and pieces: a refusal must not depend on the room left by an earlier message.
    private func take(_ bytes: UnsafeRawBufferPointer, limit: Int) throws(WebSocketError) -> Bool {
        let before = taken
        var position = 0
        var end = min(Self.pieceBytes, bytes.count)
        while true {
            if produced == room.count { try grow(limit: limit) }
            let offered = min(room.count, limit + 1) - produced
            guard offered > 0 else { throw .messageTooBig }
            stream.pointee.next_in = UnsafeMutablePointer(
                mutating: bytes.assumingMemoryBound(to: UInt8.self).baseAddress.map { $0 + position })
            stream.pointee.avail_in = UInt32(end - position)
            stream.pointee.next_out = (room.baseAddress.map { $0 + produced })?.assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_out = UInt32(clamping: offered)
            // Returns at the end of each block, too.
            let code = CZlib.inflate(stream, Z_BLOCK)
            position = end - Int(stream.pointee.avail_in)
            taken = before + position
            produced += Int(UInt32(clamping: offered) - stream.pointee.avail_out)
            guard produced <= limit else { throw .messageTooBig }
            switch code {
            case Z_OK, Z_BUF_ERROR:
                let state = stream.pointee.data_type
                let isAtBlock = state & 128 != 0
                // After the last block, zlib has yet to report the end of the stream.
                if isAtBlock, state & 64 != 0 { break }
                if !isAtBlock, stream.pointee.avail_out == 0 { continue }
                if position == bytes.count {
                    try judge()
                    return false
                }
                if isAtBlock {
                    countBlock(bytes, at: position, unused: Int(state & 7))
                } else {
                    end = min(end + Self.pieceBytes, bytes.count)
                }
            case Z_STREAM_END:
                inflateReset(stream)
                if position == bytes.count {
                    try judge()
                    return true
                }
                countBlock(bytes, at: position, unused: 0)
            default: throw .malformedDeflate
            }
            try judge()
        }
    }

    /// Counts the block that begins here, and whether it has its own codes (type 2 in RFC 1951 §3.2.3).
    ///
    /// - Parameter unused: bits of the previous byte that belong to the block.
    private func countBlock(_ bytes: UnsafeRawBufferPointer, at position: Int, unused: Int) {
        blocks += 1
        var bits = 0
        if unused > 0 {
            // The bits are in input taken earlier. The block is then the tail's, which has another type.
            guard position > 0 else { return }
            bits = Int(bytes[position - 1]) >> (8 - unused)
        }
        if unused < 3 {
            guard position < bytes.count else { return }
            bits |= Int(bytes[position]) << unused
        }
        if bits & 0b110 == 0b100 { tables += 1 }
    }

    /// Throws when the input taken has produced too little so far.
    private func judge() throws(WebSocketError) {
        guard taken <= produced + produced / 8 + Self.paddingBytes,
            tables <= Self.tablesFree + produced / Self.bytesPerTable
        else { throw .messagePadded }
    }

    /// True when zlib waits for a block's first bit at the start of a byte.
    private var isBetweenBlocks: Bool { stream.pointee.data_type & 0xBF == 128 }

    private func grow(limit: Int) throws(WebSocketError) {
        let wanted = max(limit, 0) + 1
        guard room.count < wanted else { throw .messageTooBig }
        let larger = UnsafeMutableRawBufferPointer.allocate(
            byteCount: min(max(room.count * 2, Self.roomAtFirst), wanted), alignment: 16)
        larger.copyMemory(from: UnsafeRawBufferPointer(room).part(0..<produced))
        room.deallocate()
        room = larger
    }
}
