import Bytes
import TestSupport
import Testing

@testable import WebSocket

/// The compressed payload of a message; nil when it would not get smaller.
func deflated(_ plain: [UInt8], _ window: DeflateWindow = .wide, level: Int = 6) -> [UInt8]? {
    let frame = plain.withUnsafeBytes { FrameWriter.frame(Opcode.text, $0) }
    guard let compressed = FrameDeflater(threshold: 0, level: level).compress(frame, window).frames else { return nil }
    return compressed.withUnsafeBytes { bytes in
        FrameBounds.first(in: bytes).map { [UInt8](bytes[$0.headerCount...]) }
    }
}

/// Text like that of events, with repeated words.
func text(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
    let words = ["{\"event\":\"", "occurrence.updated", "\\\"", "user.", "é€𝄞", "\n", "0", "7", "taken", "Magnesium"]
    var bytes: [UInt8] = []
    while bytes.count < count { bytes += Array((words.randomElement(using: &random) ?? "").utf8) }
    return bytes
}

/// Compressed frames as sent (RFC 7692 §6.1).
@Suite(.ownThread, .timeLimit(.minutes(15))) struct FrameDeflaterTests {
    private func frames(_ messages: [[UInt8]]) -> SharedBytes {
        var writer = ByteWriter()
        for message in messages { FrameWriter.appendText(to: &writer) { $0.append(message) } }
        return writer.finish()
    }

    /// What a client reads from the frames.
    private func seen(_ frames: SharedBytes) -> [Seen] {
        var limits = MessageLimits()
        limits.messageBytes = 1 << 20
        return read(frames.array, role: .client, limits: limits, inflater: Inflater())
    }

    @Test(arguments: DeflateWindow.allCases, [1, 2, 6, 9])
    func whatIsCompressedIsReadAgain(_ window: DeflateWindow, _ level: Int) {
        var random = SeededRandom()
        let deflater = FrameDeflater(threshold: 20, level: level)
        for round in 0..<60 {
            let lengths = (0..<Int.random(in: 1...5, using: &random)).map { _ in
                [0, 19, 20, 125, 126, 600, 5_000, 65_535, 65_536, 80_000].randomElement(using: &random) ?? 0
            }
            let messages = lengths.map { length in
                Bool.random(using: &random)
                    ? text(length, &random)
                    : (0..<length).map { _ in UInt8.random(in: 0..<128, using: &random) }
            }
            let block = frames(messages)
            let outcome = deflater.compress(block, window)
            let expected = messages.map { Seen.text(String(decoding: $0, as: UTF8.self)) }
            #expect(seen(outcome.frames ?? block) == expected, "seed \(random.seed), round \(round)")
            #expect((outcome.frames == nil) == (outcome.compressed == 0))
            let saved = outcome.plainBytes - outcome.compressedBytes
            #expect(outcome.frames == nil || block.count - (outcome.frames?.count ?? 0) == saved)
            #expect(outcome.frames == nil || saved > 0)
        }
    }

    /// No reference is farther back than the window: a client that keeps 512 bytes can read it. (zlib uses half of them.)
    @Test func theNarrowWindowIsKept() throws {
        var random = SeededRandom()
        let piece = (0..<200).map { _ in UInt8.random(in: 0x20..<0x7F, using: &random) }
        let filler = (0..<400).map { _ in UInt8.random(in: 0x20..<0x7F, using: &random) }
        let far = piece + filler + piece
        let near = piece + piece + filler
        let (narrowFar, narrowNear) = (try #require(deflated(far, .narrow)), try #require(deflated(near, .narrow)))
        let wideFar = try #require(deflated(far, .wide))
        #expect(narrowFar.count > narrowNear.count + 100, "seed \(random.seed)")
        #expect(wideFar.count < narrowFar.count - 100, "seed \(random.seed)")
    }

    @Test func theThresholdAndOneBelow() {
        let deflater = FrameDeflater(threshold: 100, level: 2)
        let message = { [UInt8](repeating: 0x61, count: $0) }
        #expect(deflater.compress(frames([message(99)]), .wide).compressed == 0)
        #expect(deflater.compress(frames([message(100)]), .wide).compressed == 1)
        // Short messages in one block are not one long message.
        let short = deflater.compress(frames([message(60), message(60)]), .wide)
        #expect(short.frames == nil && short.compressed == 0 && short.incompressible == 0)
        let mixed = deflater.compress(frames([message(99), message(100), message(3)]), .wide)
        #expect(mixed.compressed == 1)
        #expect(mixed.frames.map(seen) == [.text(message(99)), .text(message(100)), .text(message(3))])
    }

    @Test func whatDoesNotGetSmallerStaysAsItIs() {
        var random = SeededRandom()
        let noise = random.bytes(2000)
        let deflater = FrameDeflater(threshold: 0, level: 9)
        let outcome = deflater.compress(frames([noise]), .wide)
        #expect(outcome.frames == nil && outcome.incompressible == 1 && outcome.compressed == 0)
        #expect(deflater.compress(frames([[]]), .wide).frames == nil)
        #expect(deflater.compress(frames([[0x61]]), .wide).frames == nil)
    }

    /// Control frames and compressed frames pass unchanged.
    @Test func onlyPlainMessagesAreCompressed() {
        var writer = ByteWriter()
        FrameWriter.append(control: Opcode.ping, UnsafeRawBufferPointer(start: nil, count: 0), to: &writer)
        FrameWriter.appendText(to: &writer) { $0.append([UInt8](repeating: 0x61, count: 500)) }
        FrameWriter.appendClose(.normal, reason: "bye", to: &writer)
        let block = writer.finish()
        let deflater = FrameDeflater(threshold: 0, level: 2)
        let once = deflater.compress(block, .wide)
        #expect(once.frames.map(seen) == [.ping(""), .text([UInt8](repeating: 0x61, count: 500)), .close(1000)])
        guard let compressed = once.frames else { return }
        #expect(deflater.compress(compressed, .wide).frames == nil)
        // An HTTP response is no frame.
        #expect(deflater.compress(SharedBytes.copy("HTTP/1.1 101 Switching Protocols\r\n\r\n"), .wide).frames == nil)
    }

    /// Splits a block at its frames, as a queue does that drops unsent frames.
    @Test func boundsOfCompressedFrames() throws {
        let block = frames([[UInt8](repeating: 0x61, count: 700), [0x62], [UInt8](repeating: 0x63, count: 700)])
        let compressed = try #require(FrameDeflater(threshold: 10, level: 2).compress(block, .wide).frames)
        compressed.withUnsafeBytes { bytes in
            var start = 0
            var count = 0
            while start < bytes.count, let frame = FrameBounds.frame(at: start, in: bytes) {
                for offset in frame { #expect(FrameBounds.frame(at: offset, in: bytes) == frame) }
                #expect(frame.lowerBound == start)
                start = frame.upperBound
                count += 1
            }
            #expect(count == 3 && start == bytes.count)
        }
    }
}

extension Seen {
    fileprivate static func text(_ bytes: [UInt8]) -> Seen { .text(String(decoding: bytes, as: UTF8.self)) }
}
