/// Texts to be told one after the other, in one block, each behind its length. What stands around each when it is sent is the
/// matter of who sends it.
///
/// Small and `public` for the reason that `SharedBytes` has.
public struct Messages: Sendable {
    @usableFromInline var block: SharedBytes

    /// Bytes of the length before each: a 32-bit number in the machine's order.
    @inlinable public static var lengthBytes: Int { 4 }

    /// One message, which `write` appends. `capacity`: a guess at its bytes.
    @inlinable public init(capacity: Int, _ write: (inout ByteWriter) -> Void) {
        var writer = ByteWriter(capacity: capacity + Self.lengthBytes)
        Self.append(to: &writer, write)
        block = writer.finish()
    }

    /// What `append` has written, one message after the other.
    package init(_ writer: consuming ByteWriter) {
        block = writer.finish()
    }

    /// Appends a message to what will be `Messages`: what `write` appends, below 4 GB.
    @inlinable public static func append(to writer: inout ByteWriter, _ write: (inout ByteWriter) -> Void) {
        let start = writer.count
        writer.append(capacity: lengthBytes) { _ in lengthBytes }
        write(&writer)
        let count = UInt32(truncatingIfNeeded: writer.count &- start &- lengthBytes)
        UnsafeMutableRawPointer(writer.base + start).storeBytes(of: count, as: UInt32.self)
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

    /// Bytes of the message, where it is, as nearly always, the only one; else nil.
    @inlinable @inline(__always) public static func countOfOnly(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= lengthBytes else { return nil }
        let count = Int(bytes.loadUnaligned(as: UInt32.self))
        return count &+ lengthBytes == bytes.count ? count : nil
    }

    /// Has `body` rewrite the block where it lies, if nobody else has it: it gets all of it and returns which part of it is in use
    /// from then on; `bytes` has that. False where others have it, or `body` finds that it has no room; then nothing has changed.
    @inlinable @inline(__always)
    public mutating func rewrite(_ body: (UnsafeMutableRawBufferPointer) -> Range<Int>?) -> Bool {
        block.rewrite(body)
    }

    /// The block. Moved out: a copy would have to be counted.
    @inlinable @inline(__always) public consuming func bytes() -> SharedBytes { block }
}
