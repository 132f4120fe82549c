import Bytes

extension FrameWriter {
    /// Makes one block of a server's text frames from these messages. In place when the block is not shared and each header
    /// fits where the message's length stood (nearly always), else copied.
    package static func frames(of messages: consuming Messages) -> SharedBytes {
        if messages.rewrite(frameInPlace) { return messages.bytes() }
        return copied(messages)
    }

    /// Frames messages that are a part of a larger value. Afterwards they may be frames, and are not to be read.
    package static func frames(of messages: inout Messages) -> SharedBytes {
        messages.rewrite(frameInPlace) ? (copy messages).bytes() : copied(messages)
    }

    /// The messages in a block that `frames(of:)` made.
    package static func messages(of frames: SharedBytes) -> Messages {
        frames.withUnsafeBytes { bytes in
            var writer = ByteWriter(capacity: bytes.count + Messages.lengthBytes)
            var start = 0
            while start < bytes.count {
                var count = Int(bytes[start + 1])
                let wide = count == 126 ? 2 : count == 127 ? 8 : 0
                if wide > 0 { count = bytes[start + 2..<start + 2 + wide].reduce(0) { $0 << 8 | Int($1) } }
                let text = start + 2 + wide..<start + 2 + wide + count
                Messages.append(to: &writer) { $0.append(bytes.part(text)) }
                start = text.upperBound
            }
            return Messages(writer)
        }
    }

    /// The longest payload whose header fits where the message's length stood.
    private static let shortPayloadMax = 65_535

    private static func frameInPlace(_ block: UnsafeMutableRawBufferPointer) -> Range<Int>? {
        guard let base = block.baseAddress else { return nil }
        let bytes = UnsafeRawBufferPointer(block)
        if let count = Messages.countOfOnly(in: bytes), count <= shortPayloadMax {
            writeHeader(Opcode.text, count, endingAt: Messages.lengthBytes, in: block)
            return Messages.lengthBytes - headerCount(count)..<bytes.count
        }
        var next = 0
        var isShort = true
        var first: Range<Int>?
        while next < bytes.count {
            let text = Messages.next(in: bytes, at: &next)
            isShort = isShort && text.count <= shortPayloadMax
            first = first ?? text
        }
        guard isShort, let first else { return nil }
        let start = first.lowerBound - headerCount(first.count)
        var end = start
        next = 0
        while next < bytes.count {
            let text = Messages.next(in: bytes, at: &next)
            let offset = end + headerCount(text.count)
            if offset != text.lowerBound {
                (base + offset).copyMemory(from: base + text.lowerBound, byteCount: text.count)
            }
            writeHeader(Opcode.text, text.count, endingAt: offset, in: block)
            end = offset + text.count
        }
        return start..<end
    }

    private static func copied(_ messages: Messages) -> SharedBytes {
        var count = 0
        messages.each { count += headerCount($0.count) + $0.count }
        var writer = ByteWriter(capacity: count)
        messages.each { text in
            reserveHeader(headerCount(text.count), to: &writer)
            let end = writer.count
            writer.withUnsafeMutableBytes { writeHeader(Opcode.text, text.count, endingAt: end, in: $0) }
            writer.append(text)
        }
        return writer.finish()
    }
}
