import Bytes

/// Finds the frames in a block of server frames: unmasked, one after the other (RFC 6455 §5.2).
package enum FrameBounds {
    /// The frame that contains the byte at `offset`. Returns nil when the block ends before it, or when a frame up to there
    /// is not a complete server frame with its FIN bit.
    package static func frame(at offset: Int, in block: UnsafeRawBufferPointer) -> Range<Int>? {
        var start = 0
        while start < block.count {
            guard let count = first(in: block.part(start..<block.count))?.frameCount else { return nil }
            if offset < start + count { return start..<start + count }
            start += count
        }
        return nil
    }

    /// Bytes of the first frame's header and of the whole frame; nil when the block does not begin with a complete frame.
    static func first(in bytes: UnsafeRawBufferPointer) -> (headerCount: Int, frameCount: Int)? {
        guard bytes.count >= 2, bytes[0] & ~FrameWriter.compressedBit & 0xF0 == 0x80, bytes[1] & 0x80 == 0 else {
            return nil
        }
        let short = Int(bytes[1])
        let lengthBytes = short <= 125 ? 0 : short == 126 ? 2 : 8
        guard bytes.count >= 2 + lengthBytes else { return nil }
        var count = lengthBytes == 0 ? UInt64(short) : 0
        for index in 2..<2 + lengthBytes { count = count << 8 | UInt64(bytes[index]) }
        // We make no frame that is longer than its block.
        guard count <= UInt64(bytes.count - 2 - lengthBytes) else { return nil }
        return (2 + lengthBytes, 2 + lengthBytes + Int(count))
    }
}
