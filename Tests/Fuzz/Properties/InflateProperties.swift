import Bytes
import WebSocket

/// Compressed messages (RFC 7692): the inflater, and the deflater before it.
///
/// - A message within one limit is the same within a larger one, and too big within a smaller one.
/// - An inflater does not remember: what it is given again it answers again. Its room stays within the limit.
/// - A compressed message in fragments, cut anywhere on its way, is read as it is decompressed.
/// - What is compressed, with either window, is decompressed as it was.
enum InflateProperties {
    static func check(_ bytes: [UInt8], _ tools: FuzzTools) throws(Violation) {
        let inflater = tools.inflater
        let large = try inflated(bytes, limit: 1 << 16, inflater)
        for limit in [0, 1, 100, 1 << 12] {
            let small = try inflated(bytes, limit: limit, inflater)
            switch (large, small) {
            case (.success(let message), .success(let other)):
                try hold(message == other && message.count <= limit, "another message within \(limit) bytes")
            case (.success(let message), .failure(let error)):
                try hold(error == .messageTooBig && message.count > limit, "\(error) within \(limit) bytes")
            case (.failure(let error), .success): throw Violation(message: "\(error), but not within \(limit) bytes")
            case (.failure, .failure): break
            }
        }
        let again = try inflated(bytes, limit: 1 << 16, inflater)
        try hold(large == again, "an inflater that remembers")
        try checkFragments(bytes, large, inflater)
        try checkRoundTrip(bytes, tools)
    }

    private static func inflated(
        _ bytes: [UInt8], limit: Int, _ inflater: Inflater
    ) throws(Violation) -> Result<[UInt8], WebSocketError> {
        let room = inflater.roomBytes
        let result = withView(bytes) { payload in
            Result { () throws(WebSocketError) in [UInt8](try inflater.inflate(payload, limit: limit)) }
        }
        try hold(inflater.roomBytes <= max(room, limit + 1), "room for \(inflater.roomBytes) bytes, limit \(limit)")
        return result
    }

    /// The payload as a client's compressed binary message in fragments.
    private static func checkFragments(
        _ bytes: [UInt8], _ expected: Result<[UInt8], WebSocketError>, _ inflater: Inflater
    ) throws(Violation) {
        var draw = Draw(bytes)
        var writer = ByteWriter(capacity: bytes.count + 64)
        WebSocketProperties.append(Opcode.binary, bytes, &draw, &writer)
        writer.withUnsafeMutableBytes { $0[0] |= FrameWriter.compressedBit }
        let frames = writer.array
        let seen = try WebSocketProperties.checkSplits(frames, .server, MessageLimits(), inflater)
        switch expected {
        case .success(let message): try hold(seen == [.binary(message)], "in fragments another message: \(seen)")
        case .failure(let error): try hold(seen == [.failed(error)], "in fragments another failure: \(seen)")
        }
    }

    private static func checkRoundTrip(_ bytes: [UInt8], _ tools: FuzzTools) throws(Violation) {
        let plain = bytes.withUnsafeBytes { FrameWriter.frame(Opcode.text, $0) }
        for window in DeflateWindow.allCases {
            let outcome = tools.deflater.compress(plain, window)
            guard let block = outcome.frames else { continue }
            try hold(block.count < plain.count, "larger compressed than plain")
            let seen = try WebSocketProperties.checkSplits(block.array, .client, MessageLimits(), tools.inflater)
            try hold(
                seen == (bytes.strictText == nil ? [.failed(.invalidUTF8)] : [.text(bytes)]),
                "decompressed as another message than was compressed: \(seen)")
        }
    }
}
