import Bytes
import WebSocket

/// Frames: the reader in both roles, the writer, masking and the bounds of frames in a block.
///
/// - However a stream is cut, the same messages come, and the same failure after them.
/// - What is kept of an unfinished message stays within the limits, and what is left unread is part of a header.
/// - Text is UTF-8, and nothing comes after a close or a failure.
/// - What was read, written again in any fragments, is read the same.
/// - A text that is taken without a reader is the one that is read first, and where none is, nothing is changed.
enum WebSocketProperties {
    static func check(_ bytes: [UInt8], _ tools: FuzzTools) throws(Violation) {
        var small = MessageLimits()
        small.messageBytes = 40
        small.fragments = 3
        var draw = Draw(bytes)
        for role in [MessageReader.Role.server, .client] {
            for inflater in [nil, tools.inflater] {
                let seen = try checkSplits(bytes, role, MessageLimits(), inflater)
                _ = try checkSplits(bytes, role, small, inflater)
                try checkWriter(seen, &draw)
            }
        }
        try checkTaking(bytes, MessageLimits())
        try checkTaking(bytes, small)
        try checkMasking(bytes)
        try checkBounds(bytes)
    }

    /// What was read, copied.
    enum Seen: Equatable {
        case text([UInt8]), binary([UInt8]), ping([UInt8]), pong([UInt8]), close(UInt16?), failed(WebSocketError)
    }

    // MARK: Reading

    static func checkSplits(
        _ bytes: [UInt8], _ role: MessageReader.Role, _ limits: MessageLimits, _ inflater: Inflater?
    ) throws(Violation) -> [Seen] {
        let whole = try read(bytes, [], role, limits, inflater)
        for splits in Splits.of(bytes) {
            let pieces = try read(bytes, splits, role, limits, inflater)
            try hold(pieces == whole, "cut at \(splits): \(pieces), whole: \(whole)")
        }
        for (index, event) in whole.enumerated() {
            switch event {
            case .text(let text):
                try hold(text.count <= limits.messageBytes, "a text beyond its limit")
                try hold(text.strictText != nil, "a text that is not UTF-8")
            case .binary(let payload): try hold(payload.count <= limits.messageBytes, "a message beyond its limit")
            case .ping(let payload), .pong(let payload): try hold(payload.count <= 125, "a long control frame")
            case .close(let code):
                try hold(index == whole.count - 1, "something behind a close")
                try hold(code.map { CloseCode(rawValue: $0).isValidOnWire } ?? true, "a close code of no wire")
            case .failed: try hold(index == whole.count - 1, "something behind a failure")
            }
        }
        return whole
    }

    private static func read(
        _ bytes: [UInt8], _ splits: [Int], _ role: MessageReader.Role, _ limits: MessageLimits, _ inflater: Inflater?
    ) throws(Violation) -> [Seen] {
        var reader = MessageReader(role: role)
        var seen: [Seen] = []
        var unread: [UInt8] = []
        var previous = 0
        for end in splits + [bytes.count] {
            unread += bytes[previous..<end]
            previous = end
            let isFailed = withExactly(unread) { buffer in
                var consumed = 0
                defer { unread.removeFirst(consumed) }
                do throws(WebSocketError) {
                    while let event = try reader.read(buffer, consumed: &consumed, limits: limits, inflater: inflater) {
                        seen.append(copy(event, in: buffer))
                    }
                    return false
                } catch {
                    seen.append(.failed(error))
                    return true
                }
            }
            if isFailed { return seen }
            try hold(unread.count < 14, "\(unread.count) bytes left unread")
            try hold(reader.heldBytes <= limits.messageBytes + 125, "\(reader.heldBytes) bytes held")
            try hold(reader.holdsMessage || reader.heldBytes == 0, "bytes held for no message")
        }
        return seen
    }

    static func checkTaking(_ bytes: [UInt8], _ limits: MessageLimits) throws(Violation) {
        var consumed = 0
        var after = bytes
        let taken: Seen? = withExactly(bytes) { buffer in
            defer { after = [UInt8](buffer) }
            do throws(WebSocketError) {
                let range = try MessageReader.takeText(buffer, consumed: &consumed, limits: limits)
                return range.map { range in .text(Array(buffer[range])) }
            } catch {
                return .failed(error)
            }
        }
        guard let taken else { return try hold(consumed == 0 && after == bytes, "changed, and nothing taken") }
        let first = try read(bytes, [], .server, limits, nil).first
        try hold(taken == first, "taken: \(taken), read: \(first.map { "\($0)" } ?? "nothing")")
        guard case .text = taken else { return }
        // The next message begins behind it.
        let rest = try read([UInt8](bytes[consumed...]), [], .server, limits, nil)
        let all = try read(bytes, [], .server, limits, nil)
        try hold([taken] + rest == all, "\(consumed) bytes taken")
    }

    private static func copy(_ event: MessageEvent, in buffer: UnsafeMutableRawBufferPointer) -> Seen {
        switch event {
        case .text(let payload): .text(payload.withUnsafeBytes(in: buffer) { [UInt8]($0) })
        case .binary(let payload): .binary(payload.withUnsafeBytes(in: buffer) { [UInt8]($0) })
        case .ping(let payload): .ping(payload.withUnsafeBytes(in: buffer) { [UInt8]($0) })
        case .pong(let payload): .pong(payload.withUnsafeBytes(in: buffer) { [UInt8]($0) })
        case .close(let code): .close(code?.rawValue)
        }
    }

    // MARK: Writing

    /// Both sides' writers say what was read; both sides' readers understand it.
    private static func checkWriter(_ seen: [Seen], _ draw: inout Draw) throws(Violation) {
        let messages = seen.filter { if case .failed = $0 { false } else { true } }
        var fromServer = ByteWriter(capacity: 64)
        var fromClient = ByteWriter(capacity: 64)
        var isServersToo = true
        for message in messages {
            switch message {
            case .text(let text):
                try checkText(text, &fromServer)
                append(Opcode.text, text, &draw, &fromClient)
            case .binary(let payload):
                isServersToo = false
                append(Opcode.binary, payload, &draw, &fromClient)
            case .ping(let payload):
                payload.withUnsafeBytes { FrameWriter.append(control: Opcode.ping, $0, to: &fromServer) }
                append(Opcode.ping, payload, &draw, &fromClient)
            case .pong(let payload):
                payload.withUnsafeBytes { FrameWriter.append(control: Opcode.pong, $0, to: &fromServer) }
                append(Opcode.pong, payload, &draw, &fromClient)
            case .close(let code):
                FrameWriter.appendClose(code.map { CloseCode(rawValue: $0) }, reason: "bye", to: &fromServer)
                let payload = code.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? []
                append(Opcode.close, payload, &draw, &fromClient)
            case .failed: break
            }
        }
        let again = try read(fromClient.array, [], .server, MessageLimits(), nil)
        try hold(again == messages, "a client's frames: \(again), read before: \(messages)")
        // A server writes no binary messages.
        guard isServersToo else { return }
        let back = try read(fromServer.array, [], .client, MessageLimits(), nil)
        try hold(back == messages, "a server's frames: \(back), read before: \(messages)")
    }

    /// Appends a server's text frame; both ways of writing one agree.
    private static func checkText(_ text: [UInt8], _ writer: inout ByteWriter) throws(Violation) {
        let block = text.withUnsafeBytes { FrameWriter.frame(Opcode.text, $0) }
        var appended = ByteWriter(capacity: 16)
        FrameWriter.appendText(to: &appended) { $0.append(text) }
        try hold(appended.array == block.array, "two ways of writing a text frame")
        let bounds = block.withUnsafeBytes { FrameBounds.frame(at: block.count - 1, in: $0) }
        try hold(bounds == 0..<block.count, "the bounds of one frame are \(bounds.map { "\($0)" } ?? "none")")
        writer.append(block)
    }

    /// Appends a client's message, a data message in one to three fragments.
    static func append(_ opcode: UInt8, _ payload: [UInt8], _ draw: inout Draw, _ writer: inout ByteWriter) {
        let cuts = opcode & 8 != 0 ? 0 : Int.random(in: 0...2, using: &draw)
        let ends = (0..<cuts).map { _ in Int.random(in: 0...payload.count, using: &draw) }.sorted() + [payload.count]
        var start = 0
        for (index, end) in ends.enumerated() {
            payload.withUnsafeBytes { bytes in
                FrameWriter.append(
                    masked: index == 0 ? opcode : Opcode.continuation, bytes.part(start..<end),
                    mask: UInt32.random(in: 0...UInt32.max, using: &draw), isFinal: index == ends.count - 1,
                    to: &writer)
            }
            start = end
        }
    }

    // MARK: Masking and bounds

    private static func checkMasking(_ bytes: [UInt8]) throws(Violation) {
        var draw = Draw(bytes)
        let mask = UInt32.random(in: 0...UInt32.max, using: &draw)
        let split = Int.random(in: 0...bytes.count, using: &draw)
        let key = Swift.withUnsafeBytes(of: mask) { [UInt8]($0) }
        let masked = withExactly(bytes) { buffer in
            let turned = Masking.apply(mask, to: UnsafeMutableRawBufferPointer(rebasing: buffer[..<split]))
            _ = Masking.apply(turned, to: UnsafeMutableRawBufferPointer(rebasing: buffer[split...]))
            return [UInt8](buffer)
        }
        for index in bytes.indices {
            try hold(masked[index] == bytes[index] ^ key[index % 4], "byte \(index) masked wrongly, cut at \(split)")
        }
        let unmasked = withExactly(masked) { buffer in
            _ = Masking.apply(mask, to: buffer)
            return [UInt8](buffer)
        }
        try hold(unmasked == bytes, "unmasking does not undo masking")
    }

    private static func checkBounds(_ bytes: [UInt8]) throws(Violation) {
        var start = 0
        while start < bytes.count {
            let first = withView(bytes) { FrameBounds.frame(at: start, in: $0) }
            guard let first else { break }
            try hold(first.lowerBound == start && first.upperBound <= bytes.count, "a frame at \(start): \(first)")
            for offset in [first.upperBound - 1, (first.lowerBound + first.upperBound) / 2] {
                let again = withView(bytes) { FrameBounds.frame(at: offset, in: $0) }
                try hold(again == first, "the frame of byte \(offset) is not that of \(start)")
            }
            start = first.upperBound
        }
    }
}
