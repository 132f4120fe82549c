import Bytes

/// Compresses the frames of a server (RFC 7692 §6.1), for all connections of one loop. What it uses is made when it is used
/// first.
package final class FrameDeflater {
    /// What became of a block of frames.
    package struct Outcome {
        /// The block with what was worth it compressed; nil where that is nothing.
        package var frames: SharedBytes?
        /// Frames compressed.
        package var compressed = 0
        /// Frames that would not have become smaller.
        package var incompressible = 0
        /// Bytes of the compressed frames before, and as they are sent; headers included.
        package var plainBytes = 0
        package var compressedBytes = 0
    }

    /// Room for the frames of a block that is kept from one to the next.
    private static let roomKept = 256 << 10

    private let threshold: Int
    private let level: Int
    private var wide: Deflater?
    private var narrow: Deflater?
    private var writer = ByteWriter(capacity: 4096)

    /// - Parameters:
    ///   - threshold: bytes that a payload has at least to be compressed.
    ///   - level: zlib's, 1 (quick) to 9 (small).
    package init(threshold: Int, level: Int) {
        self.threshold = threshold
        self.level = level
    }

    /// Compresses those frames of `block`, which is whole frames of a server's, that carry messages of `threshold` bytes or
    /// more and become smaller by it; the others stay as they are, and all in their order.
    package func compress(_ block: SharedBytes, _ window: DeflateWindow) -> Outcome {
        var outcome = Outcome()
        guard block.count > threshold else { return outcome }
        let deflater = deflater(window)
        defer {
            if writer.count > Self.roomKept { writer = ByteWriter(capacity: 4096) } else { writer.removeAll() }
        }
        block.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count, let bounds = FrameBounds.first(in: bytes.part(start..<bytes.count)) {
                let frame = bytes.part(start..<start + bounds.frameCount)
                start += bounds.frameCount
                append(frame, payload: frame.part(bounds.headerCount..<frame.count), deflater, &outcome)
            }
            // What is no frame of ours is not for us to change.
            if outcome.compressed > 0, start == bytes.count { outcome.frames = writer.copy() }
        }
        return outcome
    }

    private func append(
        _ frame: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, _ deflater: Deflater, _ outcome: inout Outcome
    ) {
        guard payload.count >= threshold, frame[0] == 0x80 | Opcode.text || frame[0] == 0x80 | Opcode.binary else {
            return writer.append(frame)
        }
        guard let count = appendCompressed(frame[0] & 0xF, payload, deflater) else {
            outcome.incompressible += 1
            return writer.append(frame)
        }
        outcome.compressed += 1
        outcome.plainBytes += frame.count
        outcome.compressedBytes += count
    }

    /// Appends a frame of the compressed payload if that is smaller, and returns how many bytes the frame has.
    private func appendCompressed(
        _ opcode: UInt8, _ payload: UnsafeRawBufferPointer, _ deflater: Deflater
    ) -> Int? {
        let start = writer.count
        let reserved = FrameWriter.headerCount(payload.count)
        var compressed: Int?
        writer.append(capacity: reserved + payload.count - 1 + Deflater.spareBytes) { room in
            compressed = deflater.deflate(payload, into: UnsafeMutableRawBufferPointer(rebasing: room[reserved...]))
            return compressed.map { reserved + $0 } ?? 0
        }
        guard let compressed else { return nil }
        let header = FrameWriter.headerCount(compressed)
        writer.withUnsafeMutableBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            if header < reserved {
                (base + start + header).copyMemory(from: base + start + reserved, byteCount: compressed)
            }
            FrameWriter.writeHeader(opcode, compressed, endingAt: start + header, in: bytes)
            bytes[start] |= FrameWriter.compressedBit
        }
        writer.truncate(to: start + header + compressed)
        return header + compressed
    }

    private func deflater(_ window: DeflateWindow) -> Deflater {
        func kept(_ slot: inout Deflater?) -> Deflater {
            if let deflater = slot { return deflater }
            let deflater = Deflater(window: window, level: level)
            slot = deflater
            return deflater
        }
        return window == .wide ? kept(&wide) : kept(&narrow)
    }
}
