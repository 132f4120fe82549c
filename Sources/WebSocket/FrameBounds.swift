import Bytes

/// Where the frames of a block lie that a server has made: unmasked, one after the other (RFC 6455 §5.2).
package enum FrameBounds {
    /// The frame that the byte at `offset` belongs to. Nil where the block is not whole frames of a server's, each with
    /// its FIN bit and without extensions, up to there, or ends before.
    package static func frame(at offset: Int, in block: UnsafeRawBufferPointer) -> Range<Int>? {
        var start = 0
        while start < block.count {
            guard let count = frameCount(block.part(start..<block.count)), count <= block.count - start else {
                return nil
            }
            if offset < start + count { return start..<start + count }
            start += count
        }
        return nil
    }

    /// Bytes of the frame, header included, by its header alone.
    private static func frameCount(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= 2, bytes[0] & 0xF0 == 0x80, bytes[1] & 0x80 == 0 else { return nil }
        let short = Int(bytes[1])
        guard short > 125 else { return 2 + short }
        let lengthBytes = short == 126 ? 2 : 8
        guard bytes.count >= 2 + lengthBytes else { return nil }
        var count: UInt64 = 0
        for index in 2..<2 + lengthBytes { count = count << 8 | UInt64(bytes[index]) }
        // What no block can hold is not ours.
        guard count <= UInt64(bytes.count - 2 - lengthBytes) else { return nil }
        return 2 + lengthBytes + Int(count)
    }
}
