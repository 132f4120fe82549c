import Bytes
import Reactor

/// Bytes of commands that wait to be written: one block, so that whatever was sent in one turn of the loop leaves by one
/// call, and a command is encoded straight into it.
struct RedisOutput: ~Copyable {
    private var writer = ByteWriter(capacity: 4_096)
    private var written = 0

    /// Bytes that wait.
    var count: Int { writer.count &- written }
    var isEmpty: Bool { count == 0 }

    /// Lets `encode` append a command, and takes it back where more than `most` bytes would wait then.
    ///
    /// - Returns: whether it waits to be written.
    mutating func append(most: Int, _ encode: (inout ByteWriter) -> Void) -> Bool {
        let before = writer.count
        encode(&writer)
        guard count > most else { return true }
        writer.truncate(to: before)
        return false
    }

    /// Calls `body` with the bytes that wait, `most` of them at most.
    func withBytes<Result>(most: Int = .max, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        writer.withUnsafeBytes { bytes in
            body(UnsafeRawBufferPointer(rebasing: bytes[written..<min(bytes.count, written &+ min(most, count))]))
        }
    }

    /// The first `count` bytes are written.
    ///
    /// Worst interleaving: the socket takes a part, and commands are appended before it takes the rest. `written` counts
    /// from the block's beginning, and the block is only begun anew when nothing waits, or together with what waits
    /// (`whatASocketTakesInPartsArrivesWhole`).
    mutating func advance(by count: Int) {
        written &+= count
        if written == writer.count {
            if writer.count > RedisLimits.outputKeptBytes {
                writer = ByteWriter(capacity: 4_096)
            } else {
                writer.removeAll()
            }
            written = 0
        } else if written >= RedisLimits.outputKeptBytes, written >= writer.count / 2 {
            // Otherwise it would grow for as long as something always waits.
            var rest = ByteWriter(capacity: writer.count &- written)
            writer.withUnsafeBytes { rest.append(UnsafeRawBufferPointer(rebasing: $0[written...])) }
            writer = rest
            written = 0
        }
    }
}

/// What the connections of one loop read into, one after the other.
final class RedisRoom {
    /// More than TLS reads at a time, with a record and its overhead.
    static let bytes = TLSWire.receiveBytes + TLSWire.recordBytes + TLSWire.recordOverhead

    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: RedisRoom.bytes, alignment: 64)
    /// Nil without TLS.
    let wire: TLSWire?

    init(secured isSecured: Bool) throws(TLSError) {
        wire = isSecured ? try TLSWire() : nil
    }

    deinit {
        buffer.deallocate()
    }
}
