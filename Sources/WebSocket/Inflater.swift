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
        /// Messages larger than the limit, and such as are no DEFLATE data (RFC 1951).
        package var tooBig = 0
        package var malformed = 0

        package init() {}
    }

    /// The room for a message that is kept from one to the next.
    package static let roomKept = 256 << 10
    /// The room to begin with.
    private static let roomAtFirst = 4 << 10

    package private(set) var tally = Tally()
    // Of a fixed address: zlib's state points back to it.
    private let stream: UnsafeMutablePointer<z_stream>
    private var room = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var produced = 0
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
    /// - Throws: `messageTooBig`, or `malformedDeflate` for what is no sequence of whole blocks.
    package func inflate(_ payload: UnsafeRawBufferPointer, limit: Int) throws(WebSocketError) -> UnsafeRawBufferPointer
    {
        inflateReset(stream)
        produced = 0
        do throws(WebSocketError) {
            if payload.count > 0, try !take(payload, limit: limit) {
                try withUnsafeBytes(of: Self.tail) { bytes throws(WebSocketError) in _ = try take(bytes, limit: limit) }
                guard isBetweenBlocks else { throw .malformedDeflate }
            }
        } catch {
            if error == .messageTooBig { tally.tooBig += 1 } else { tally.malformed += 1 }
            throw error
        }
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
    private func take(_ bytes: UnsafeRawBufferPointer, limit: Int) throws(WebSocketError) -> Bool {
        guard let count = UInt32(exactly: bytes.count) else { throw .messageTooBig }
        stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
        stream.pointee.avail_in = count
        while true {
            if produced == room.count { try grow(limit: limit) }
            let offered = min(room.count, limit + 1) - produced
            guard offered > 0 else { throw .messageTooBig }
            stream.pointee.next_out = (room.baseAddress.map { $0 + produced })?.assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_out = UInt32(clamping: offered)
            let code = CZlib.inflate(stream, Z_SYNC_FLUSH)
            produced += Int(UInt32(clamping: offered) - stream.pointee.avail_out)
            guard produced <= limit else { throw .messageTooBig }
            switch code {
            case Z_OK, Z_BUF_ERROR:
                // Room was left, so it is input that is wanted.
                if stream.pointee.avail_out > 0 { return false }
            case Z_STREAM_END:
                inflateReset(stream)
                if stream.pointee.avail_in == 0 { return true }
            default: throw .malformedDeflate
            }
        }
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
