import Bytes
import CZlib

/// The windows that messages are compressed with. Two, so that a broadcast is compressed twice at most: every client that
/// offers less than the wide one gets the narrow one.
package enum DeflateWindow: UInt8, CaseIterable, Sendable {
    /// 512 bytes, the smallest that zlib has: it cannot do the 256 that RFC 7692 also allows.
    case narrow = 9
    /// 4 KiB. Messages are no larger as a rule; with 32 KiB, those of 50 KiB become smaller by two in a hundred.
    case wide = 12

    /// The one for a client that takes at most `bits` (8 to 15), which is told so.
    init?(atMost bits: UInt8) {
        guard bits >= Self.narrow.rawValue else { return nil }
        self = bits >= Self.wide.rawValue ? .wide : .narrow
    }
}

/// Compresses messages (RFC 7692 §7.2.1), each by itself, with one window, for all connections of one loop.
///
/// It holds 54 KiB with the wide window and 40 KiB with the narrow one.
package final class Deflater {
    // zlib's default, 8, is slower by a tenth with messages of 1 KiB and by a third with those of 50: its tables, which are
    // emptied for each message, are four times as large.
    private static let memoryLevel: Int32 = 6

    // Of a fixed address: zlib's state points back to it.
    private let stream: UnsafeMutablePointer<z_stream>

    /// - Parameter level: zlib's, 1 (quick) to 9 (small).
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

    /// Bytes that `deflate` needs to write more than it may: room for `count` bytes has so many more.
    static let spareBytes = 5

    /// Writes the message as it is sent, without its tail, and returns how many bytes that is; nil where they would be
    /// more than `room` has beside its last `spareBytes`.
    func deflate(_ payload: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard let taken = UInt32(exactly: payload.count), let given = UInt32(exactly: room.count) else { return nil }
        deflateReset(stream)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: payload.assumingMemoryBound(to: UInt8.self).baseAddress)
        stream.pointee.avail_in = taken
        stream.pointee.next_out = room.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_out = given
        // With room left, all is written, and the empty block behind it whose last four bytes are left off.
        guard CZlib.deflate(stream, Z_SYNC_FLUSH) == Z_OK, stream.pointee.avail_out > 0 else { return nil }
        let count = Int(given - stream.pointee.avail_out) - 4
        return count > 0 ? count : nil
    }
}
