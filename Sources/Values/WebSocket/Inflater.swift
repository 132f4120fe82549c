import Bytes
import CZlib

/// Decompresses messages (RFC 7692 §7.2.2), each by itself, for all connections of one loop: no connection keeps a window.
///
/// It holds 39 KiB (zlib's state and the largest window, 32 KiB, whatever the peers use) and the room for one message,
/// which grows with what comes up to the limit of a message and one byte; of it, `roomKept` bytes stay.
package final class Inflater {
    /// What was decompressed and refused since somebody asked last.
    package struct Tally: Sendable, Equatable {
        /// Messages decompressed.
        package var messages = 0
        /// Their bytes as they came, and as they are.
        package var compressedBytes = 0
        package var plainBytes = 0
        /// Messages larger than the limit, such as are no DEFLATE data (RFC 1951), and such as are padded with blocks of
        /// nothing.
        package var tooBig = 0
        package var malformed = 0
        package var padded = 0

        package init() {}
    }

    /// The room for a message that is kept from one to the next.
    package static let roomKept = 256 << 10
    /// The room to begin with.
    private static let roomAtFirst = 4 << 10
    /// Input is decompressed by such pieces, and judged after each: what is padded costs no more than one in vain.
    private static let pieceBytes = 4 << 10
    /// A message may be longer compressed than plain by an eighth of it (9 bits for each byte is what fixed codes take at
    /// most) and by this: for what flushing leaves.
    package static let paddingBytes = 1 << 10
    /// Bytes that a block with codes of its own counts for: its tables take 1 to 3 µs, however little comes of them.
    package static let tableCost = 512
    /// Bytes that each block counts for, whatever its type: it takes some 60 ns, also where nothing comes of it.
    package static let blockCost = 32
    /// Blocks with codes of their own that any message may have, and of how many plain bytes on average each further one is.
    /// zlib makes one of 127 bytes or more, with its least memory (`memLevel` 1); with the usual one, of 16,383.
    package static let tablesFree = 16
    package static let bytesPerTable = 64

    package private(set) var tally = Tally()
    /// What the last message cost, in bytes: the longer of what came and what it is, and its blocks and tables.
    package private(set) var cost = 0
    // Of a fixed address: zlib's state points back to it.
    private let stream: UnsafeMutablePointer<z_stream>
    private var room = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var produced = 0
    /// Bytes of the message that were taken, its blocks, and of them those with codes of their own.
    private var taken = 0
    private var blocks = 0
    private var tables = 0
    /// What senders leave off, an empty block without compression (RFC 7692 §7.2.1): 00 00 FF FF.
    private static let tail = UInt32(0xFFFF_0000).littleEndian

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

    /// The message in `payload`, valid until the next call.
    ///
    /// A message that ends with a final block (BFINAL) may lack the byte that RFC 7692 §7.2.3.4 wants behind it, and an empty
    /// one the byte that it is (§7.2.3.6): there is nothing to mistake.
    /// - Parameter limit: bytes that the message may have. Not more than one byte beyond it is ever written.
    /// - Throws: `messageTooBig`, `malformedDeflate` for what is no sequence of whole blocks, or `messagePadded` for one that
    ///   is much longer compressed than it has reason to be: blocks without content cost time, and no byte of the limit.
    package func inflate(_ payload: UnsafeRawBufferPointer, limit: Int) throws(WebSocketError) -> UnsafeRawBufferPointer
    {
        inflateReset(stream)
        (produced, taken, blocks, tables, cost) = (0, 0, 0, 0, 0)
        if payload.count > 0 { countBlock(payload, at: 0, unused: 0) }
        do throws(WebSocketError) {
            if payload.count > 0, try !take(payload, limit: limit) {
                // What the sender has not sent does not count.
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

    /// Bytes of the room for a message.
    package var roomBytes: Int { room.count }

    /// What was counted since the last call.
    package func takeTally() -> Tally {
        defer { tally = Tally() }
        return tally
    }

    /// Gives back what a large message has taken. The message is gone with it.
    package func trim() {
        guard room.count > Self.roomKept else { return }
        room.deallocate()
        room = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    }

    /// Takes the next bytes; true when a final block has ended with the last of them.
    ///
    /// It judges at the ends of blocks and of pieces of the input, and nowhere else: what is refused must not depend on the
    /// room that an earlier message has left.
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
            // It comes back at the end of each block, too.
            let code = CZlib.inflate(stream, Z_BLOCK)
            position = end - Int(stream.pointee.avail_in)
            taken = before + position
            produced += Int(UInt32(clamping: offered) - stream.pointee.avail_out)
            guard produced <= limit else { throw .messageTooBig }
            switch code {
            case Z_OK, Z_BUF_ERROR:
                let state = stream.pointee.data_type
                let isAtBlock = state & 128 != 0
                // Behind the last block, the end of the stream has still to be told.
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

    /// Counts the block that begins here, and whether it brings codes of its own (RFC 1951 §3.2.3: type 2).
    ///
    /// - Parameter unused: bits of the byte before that belong to it.
    private func countBlock(_ bytes: UnsafeRawBufferPointer, at position: Int, unused: Int) {
        blocks += 1
        var bits = 0
        if unused > 0 {
            // Of bytes that were taken before these: the tail's, which is a block of another type.
            guard position > 0 else { return }
            bits = Int(bytes[position - 1]) >> (8 - unused)
        }
        if unused < 3 {
            guard position < bytes.count else { return }
            bits |= Int(bytes[position]) << unused
        }
        if bits & 0b110 == 0b100 { tables += 1 }
    }

    /// Whether what was taken has had enough come of it so far.
    private func judge() throws(WebSocketError) {
        guard taken <= produced + produced / 8 + Self.paddingBytes,
            tables <= Self.tablesFree + produced / Self.bytesPerTable
        else { throw .messagePadded }
    }

    /// Whether zlib waits for the next block's first bit, at the beginning of a byte.
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
