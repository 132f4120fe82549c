/// Texts to be told one after the other, in one block, each behind its length. What stands around each when it is sent is the
/// matter of who sends it.
///
/// Small and `public` for the reason that `SharedBytes` has.
public struct Messages: Sendable {
    private var block: SharedBytes

    /// Bytes of the length before each: a 32-bit number in the machine's order.
    package static let lengthBytes = 4

    /// One message, which `write` appends. `capacity`: a guess at its bytes.
    package init(capacity: Int, _ write: (inout ByteWriter) -> Void) {
        var writer = ByteWriter(capacity: capacity + Self.lengthBytes)
        Self.append(to: &writer, write)
        block = writer.finish()
    }

    /// What `append` has written, one message after the other.
    package init(_ writer: consuming ByteWriter) {
        block = writer.finish()
    }

    /// Appends a message to what will be `Messages`: what `write` appends, below 4 GB.
    package static func append(to writer: inout ByteWriter, _ write: (inout ByteWriter) -> Void) {
        let start = writer.count
        writer.append(capacity: lengthBytes) { _ in lengthBytes }
        write(&writer)
        let count = UInt32(truncatingIfNeeded: writer.count &- start &- lengthBytes)
        writer.withUnsafeMutableBytes { $0.storeBytes(of: count, toByteOffset: start, as: UInt32.self) }
    }

    /// Bytes of all, with their lengths.
    package var byteCount: Int { block.count }

    /// Calls `body` with each message in turn.
    package func each(_ body: (UnsafeRawBufferPointer) -> Void) {
        block.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count { body(bytes.part(Self.next(in: bytes, at: &start))) }
        }
    }

    /// Where the message lies whose length stands at `start`, which moves to the next one's.
    package static func next(in bytes: UnsafeRawBufferPointer, at start: inout Int) -> Range<Int> {
        let count = Int(bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self))
        let text = start + lengthBytes..<start + lengthBytes + count
        start = text.upperBound
        return text
    }

    /// The block, rewritten where it lies, if nobody else has it: `body` gets all of it and returns which part of it is in use
    /// from then on. Nil where others have it, or `body` finds that it has no room; then nothing has changed.
    package mutating func rewrite(_ body: (UnsafeMutableRawBufferPointer) -> Range<Int>?) -> SharedBytes? {
        block.rewrite(body) ? block : nil
    }
}
