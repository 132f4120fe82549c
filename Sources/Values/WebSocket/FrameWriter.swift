import Bytes

/// Writes frames (RFC 6455 §5): bare for a server, masked for a client.
package enum FrameWriter {
    /// Longest payload of a control frame (RFC 6455 §5.5).
    package static let maximumControlBytes = 125
    /// RSV1, in the first byte of a compressed message (RFC 7692 §6).
    package static let compressedBit: UInt8 = 0x40

    /// Appends a server's text frame to `writer`; its payload is what `write` appends.
    ///
    /// For replies to one connection, many in one writer. The payload moves once if its header is not 4 bytes long.
    package static func appendText(to writer: inout ByteWriter, _ write: (inout ByteWriter) -> Void) {
        let start = writer.count
        let reserved = 4
        reserveHeader(reserved, to: &writer)
        write(&writer)
        let payloadCount = writer.count - start - reserved
        let headerCount = headerCount(payloadCount)
        if headerCount > reserved { reserveHeader(headerCount - reserved, to: &writer) }
        writer.withUnsafeMutableBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            if headerCount != reserved {
                (base + start + headerCount).copyMemory(from: base + start + reserved, byteCount: payloadCount)
            }
            writeHeader(Opcode.text, payloadCount, endingAt: start + headerCount, in: bytes)
        }
        writer.truncate(to: start + headerCount + payloadCount)
    }

    /// A server's frame of any kind around a copy of `payload`.
    package static func frame(_ opcode: UInt8, _ payload: UnsafeRawBufferPointer) -> SharedBytes {
        let headerCount = headerCount(payload.count)
        var writer = ByteWriter(capacity: headerCount + payload.count)
        reserveHeader(headerCount, to: &writer)
        writer.withUnsafeMutableBytes { writeHeader(opcode, payload.count, endingAt: headerCount, in: $0) }
        writer.append(payload)
        return writer.finish()
    }

    /// Appends a server's control frame. A payload beyond 125 bytes is cut; ours are never longer.
    package static func append(control opcode: UInt8, _ payload: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        let payload = payload.part(0..<min(payload.count, maximumControlBytes))
        writer.append(0x80 | opcode)
        writer.append(UInt8(truncatingIfNeeded: payload.count))
        writer.append(payload)
    }

    /// Appends a server's close frame. The reason is cut at 123 bytes. Without a code, the frame is empty.
    package static func appendClose(_ code: CloseCode?, reason: StaticString = "", to writer: inout ByteWriter) {
        guard let code else { return append(control: Opcode.close, .init(start: nil, count: 0), to: &writer) }
        let reason = reason.bytes.part(0..<min(reason.utf8CodeUnitCount, maximumControlBytes - 2))
        writer.append(0x80 | Opcode.close)
        writer.append(UInt8(truncatingIfNeeded: reason.count + 2))
        writer.append(UInt8(truncatingIfNeeded: code.rawValue >> 8))
        writer.append(UInt8(truncatingIfNeeded: code.rawValue))
        writer.append(reason)
    }

    /// Appends a client's frame masked with `mask`. The caller draws a new mask for each frame (RFC 6455 §5.3).
    package static func append(
        masked opcode: UInt8, _ payload: UnsafeRawBufferPointer, mask: UInt32, isFinal: Bool = true,
        to writer: inout ByteWriter
    ) {
        let headerCount = headerCount(payload.count)
        let start = writer.count
        reserveHeader(headerCount, to: &writer)
        writer.withUnsafeMutableBytes { bytes in
            writeHeader(opcode, payload.count, endingAt: start + headerCount, in: bytes)
            if !isFinal { bytes[start] &= 0x7F }
            bytes[start + 1] |= 0x80
        }
        withUnsafeBytes(of: mask) { writer.append($0) }
        let payloadStart = writer.count
        writer.append(payload)
        writer.withUnsafeMutableBytes { bytes in
            _ = Masking.apply(mask, to: UnsafeMutableRawBufferPointer(rebasing: bytes[payloadStart...]))
        }
    }

    /// Bytes of an unmasked header for a payload of `count` bytes.
    package static func headerCount(_ count: Int) -> Int { count < 126 ? 2 : count < 65_536 ? 4 : 10 }

    /// Leaves room for a header, to be written before the frame is handed on.
    static func reserveHeader(_ count: Int, to writer: inout ByteWriter) {
        writer.append(capacity: count) { _ in count }
    }

    /// Writes the header of a frame whose payload of `count` bytes begins at `end`.
    static func writeHeader(
        _ opcode: UInt8, _ count: Int, endingAt end: Int, in bytes: UnsafeMutableRawBufferPointer
    ) {
        let start = end - headerCount(count)
        bytes[start] = 0x80 | opcode
        switch end - start {
        case 2: bytes[start + 1] = UInt8(truncatingIfNeeded: count)
        case 4:
            bytes[start + 1] = 126
            bytes[start + 2] = UInt8(truncatingIfNeeded: count >> 8)
            bytes[start + 3] = UInt8(truncatingIfNeeded: count)
        default:
            bytes[start + 1] = 127
            for index in 0..<8 { bytes[start + 2 + index] = UInt8(truncatingIfNeeded: count >> (56 - 8 * index)) }
        }
    }
}
