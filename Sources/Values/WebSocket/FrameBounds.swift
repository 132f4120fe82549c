import Bytes

/// Where the frames of a block lie that a server has made: unmasked, one after the other (RFC 6455 §5.2).
package enum FrameBounds {
    /// The frame that the byte at `offset` belongs to. Nil where the block is not whole frames of a server's, each with
    /// its FIN bit, compressed or not, up to there, or ends before.
    package static func frame(at offset: Int, in block: UnsafeRawBufferPointer) -> Range<Int>? {
        var start = 0
        while start < block.count {
            guard let count = first(in: block.part(start..<block.count))?.frameCount else { return nil }
            if offset < start + count { return start..<start + count }
            start += count
        }
        return nil
    }

    /// Bytes of the first frame's header, and of the whole frame; nil where the block does not begin with one.
    static func first(in bytes: UnsafeRawBufferPointer) -> (headerCount: Int, frameCount: Int)? {
        guard bytes.count >= 2, bytes[0] & ~FrameWriter.compressedBit & 0xF0 == 0x80, bytes[1] & 0x80 == 0 else {
            return nil
        }
        let short = Int(bytes[1])
        let lengthBytes = short <= 125 ? 0 : short == 126 ? 2 : 8
        guard bytes.count >= 2 + lengthBytes else { return nil }
        var count = lengthBytes == 0 ? UInt64(short) : 0
        for index in 2..<2 + lengthBytes { count = count << 8 | UInt64(bytes[index]) }
        // What no block can hold is not ours.
        guard count <= UInt64(bytes.count - 2 - lengthBytes) else { return nil }
        return (2 + lengthBytes, 2 + lengthBytes + Int(count))
    }
}
