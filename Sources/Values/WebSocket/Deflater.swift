import Bytes
import CZlib

/// The windows for compression. There are two, so a broadcast is compressed at most twice. A client that offers less than
/// the wide window gets the narrow one.
package enum DeflateWindow: UInt8, CaseIterable, Sendable {
    /// 512 bytes, zlib's minimum. zlib cannot do the 256 bytes that RFC 7692 also allows.
    case narrow = 9
    /// 4 KiB, enough for most messages. A window of 32 KiB makes messages of 50 KiB only 2 % smaller.
    case wide = 12

    /// The window for a client that accepts at most `bits` (8 to 15); nil when none is small enough.
    init?(atMost bits: UInt8) {
        guard bits >= Self.narrow.rawValue else { return nil }
        self = bits >= Self.wide.rawValue ? .wide : .narrow
    }
}

/// Compresses messages with one window, each by itself (RFC 7692 §7.2.1), for all connections of one loop.
///
/// It holds 54 KiB with the wide window and 40 KiB with the narrow one.
package final class Deflater {
    // zlib's default, 8, is 10 % slower with messages of 1 KiB and a third slower with 50 KiB: its tables are four times as
    // large and are cleared for each message.
    private static let memoryLevel: Int32 = 6

    // At a fixed address: zlib's state points back to it.
    private let stream: UnsafeMutablePointer<z_stream>

    /// - Parameter level: zlib's level, 1 (fast) to 9 (small).
    package init(window: DeflateWindow, level: Int) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let code = deflateInit2_(
            stream, Int32(clamping: level), Z_DEFLATED, -Int32(window.rawValue), Self.memoryLevel, Z_DEFAULT_STRATEGY,
            ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(code == Z_OK, "zlib got no memory, or a level that is none")
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Bytes that `deflate` needs beyond the longest result: to allow `count` bytes, give it room for `count + spareBytes`.
    static let spareBytes = 5

    /// Writes the compressed message without its tail and returns its length; nil when it exceeds `room` less `spareBytes`.
    func deflate(_ payload: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard let taken = UInt32(exactly: payload.count), let given = UInt32(exactly: room.count) else { return nil }
        deflateReset(stream)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: payload.assumingMemoryBound(to: UInt8.self).baseAddress)
        stream.pointee.avail_in = taken
        stream.pointee.next_out = room.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_out = given
        // When room is left, everything is written, and then an empty block whose last four bytes are not sent.
        guard CZlib.deflate(stream, Z_SYNC_FLUSH) == Z_OK, stream.pointee.avail_out > 0 else { return nil }
        let count = Int(given - stream.pointee.avail_out) - 4
        return count > 0 ? count : nil
    }
}
