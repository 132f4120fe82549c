import Bytes

/// Compresses a server's frames (RFC 7692 §6.1), for all connections of one loop. Each deflater is created at its first use.
package final class FrameDeflater {
    /// The result for one block of frames.
    package struct Outcome {
        /// The block with its compressible frames compressed; nil when no frame was compressed.
        package var frames: SharedBytes?
        /// Frames compressed.
        package var compressed = 0
        /// Frames that would not have become smaller.
        package var incompressible = 0
        /// Bytes of the compressed frames, before and after, headers included.
        package var plainBytes = 0
        /// Bytes of the compressed frames after compression, headers included.
        package var compressedBytes = 0
    }

    /// Buffer bytes that are kept between blocks.
    private static let roomKept = 256 << 10

    private let threshold: Int
    private let level: Int
    private var wide: Deflater?
    private var narrow: Deflater?
    private var writer = ByteWriter(capacity: 4096)

    /// - Parameters:
    ///   - threshold: smallest payload that is compressed, in bytes.
    ///   - level: zlib's level, 1 (fast) to 9 (small).
    package init(threshold: Int, level: Int) {
        self.threshold = threshold
        self.level = level
    }

    /// Compresses the frames of `block` that carry messages of at least `threshold` bytes and become smaller. Other frames
    /// stay as they are, and the order is kept. `block` holds whole server frames.
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
            // A block that is not whole frames of ours stays unchanged.
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

    /// Appends a frame with the compressed payload if that is smaller, and returns the frame's length in bytes.
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
