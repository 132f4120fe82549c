/// Texts to send in order, in one block, each after its length. The sender chooses the framing.
///
/// Small and `public`, for the same reason as `SharedBytes`.
public struct Messages: Sendable {
    @usableFromInline var block: SharedBytes

    /// Bytes of each length: a 32-bit number in the machine's byte order.
    @inlinable public static var lengthBytes: Int { 4 }

    /// One message, appended by `write`. `capacity` is its estimated size.
    @inlinable public init(capacity: Int, _ write: (inout ByteWriter) -> Void) {
        var writer = ByteWriter(capacity: capacity + Self.lengthBytes)
        Self.append(to: &writer, write)
        block = writer.finish()
    }

    /// The messages written with `append`.
    package init(_ writer: consuming ByteWriter) {
        block = writer.finish()
    }

    /// Appends one message to a writer that will become `Messages`. `write` appends its text, below 4 GB.
    @inlinable public static func append(to writer: inout ByteWriter, _ write: (inout ByteWriter) -> Void) {
        let start = writer.count
        writer.append(capacity: lengthBytes) { _ in lengthBytes }
        write(&writer)
        let count = UInt32(truncatingIfNeeded: writer.count &- start &- lengthBytes)
        UnsafeMutableRawPointer(writer.base + start).storeBytes(of: count, as: UInt32.self)
    }

    /// Bytes of all messages and their lengths.
    package var byteCount: Int { block.count }

    /// Calls `body` with each message in turn.
    package func each(_ body: (UnsafeRawBufferPointer) -> Void) {
        block.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count { body(bytes.part(Self.next(in: bytes, at: &start))) }
        }
    }

    /// The range of the message whose length is at `start`. Advances `start` to the next length.
    package static func next(in bytes: UnsafeRawBufferPointer, at start: inout Int) -> Range<Int> {
        let count = Int(bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self))
        let text = start + lengthBytes..<start + lengthBytes + count
        start = text.upperBound
        return text
    }

    /// Bytes of the message when it is the only one, as nearly always; otherwise nil.
    @inlinable @inline(__always) public static func countOfOnly(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= lengthBytes else { return nil }
        let count = Int(bytes.loadUnaligned(as: UInt32.self))
        return count &+ lengthBytes == bytes.count ? count : nil
    }

    /// Lets `body` rewrite the block in place if it is not shared. `body` gets the whole block and returns the range then in
    /// use. Returns false, with nothing changed, when the block is shared or `body` returns nil for lack of room.
    @inlinable @inline(__always)
    public mutating func rewrite(_ body: (UnsafeMutableRawBufferPointer) -> Range<Int>?) -> Bool {
        block.rewrite(body)
    }

    /// The block. Moved out, because a copy would cost a reference count.
    @inlinable @inline(__always) public consuming func bytes() -> SharedBytes { block }
}
