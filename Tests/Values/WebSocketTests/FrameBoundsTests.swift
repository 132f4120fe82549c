import Bytes
import TestSupport
import Testing
import WebSocket

@Suite struct FrameBoundsTests {
    /// A block of text frames with payloads of these lengths, and the frames' bounds.
    private func block(_ lengths: [Int]) -> (bytes: [UInt8], bounds: [Int]) {
        var writer = ByteWriter()
        var bounds = [0]
        for length in lengths {
            // Payloads that look like headers.
            FrameWriter.appendText(to: &writer) { $0.append(utf8: String(repeating: "\u{1}", count: length)) }
            bounds.append(writer.count)
        }
        return (writer.array, bounds)
    }

    private func frame(at offset: Int, in bytes: [UInt8]) -> Range<Int>? {
        bytes.withUnsafeBytes { FrameBounds.frame(at: offset, in: $0) }
    }

    @Test func everyByteBelongsToItsFrame() throws {
        let (bytes, bounds) = block([0, 1, 125, 126, 0, 300, 65_535, 65_536, 3])
        for (start, end) in zip(bounds, bounds.dropFirst()) {
            for offset in start..<end { try #require(frame(at: offset, in: bytes) == start..<end) }
        }
        #expect(frame(at: bytes.count, in: bytes) == nil)
        #expect(frame(at: 0, in: []) == nil)
    }

    @Test func controlFramesAreFramesToo() {
        var writer = ByteWriter()
        FrameWriter.append(control: Opcode.ping, UnsafeRawBufferPointer(start: nil, count: 0), to: &writer)
        FrameWriter.appendClose(.normal, reason: "bye", to: &writer)
        #expect(frame(at: 1, in: writer.array) == 0..<2)
        #expect(frame(at: 2, in: writer.array) == 2..<9)
    }

    /// Also bytes that our server never makes.
    @Test func whatIsNoFrameHasNoBounds() {
        #expect(frame(at: 0, in: Array("HTTP/1.1 101 Switching Protocols\r\n\r\n".utf8)) == nil)
        let lengths: [[UInt8]] = [
            [], [0x81], [0x81, 0x01], [0x81, 0x7E], [0x81, 0x7E, 0x00], [0x81, 0x7E, 0x00, 0x01],
            [0x81, 0x7F] + [UInt8](repeating: 0, count: 7), [0x81, 0x7F] + [UInt8](repeating: 0xFF, count: 8),
            [0x81, 0x7F, 0x7F] + [UInt8](repeating: 0xFF, count: 7), [0x81, 0x80, 0, 0, 0, 0], [0x01, 0x00],
            [0xC1], [0xD1, 0x00], [0xA1, 0x00], [0x41, 0x00], [0x00, 0x00],
        ]
        for bytes in lengths {
            #expect(frame(at: 0, in: bytes) == nil, "\(bytes)")
            // After a valid frame.
            #expect(frame(at: 2, in: [0x81, 0x00] + bytes) == nil, "\(bytes)")
        }
    }

    @Test(arguments: 0..<50 as Range<UInt64>)
    func garbageNeverTraps(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<200 {
            let bytes = (0..<Int.random(in: 0..<40, using: &random)).map { _ -> UInt8 in
                let other = UInt8.random(in: .min ... .max, using: &random)
                return ([0x81, 0x00, 0x7E, 0x7F, 0x01, 0x05, other] as [UInt8]).randomElement(using: &random) ?? other
            }
            for offset in 0...bytes.count {
                guard let range = frame(at: offset, in: bytes) else { continue }
                #expect(range.contains(offset) && range.upperBound <= bytes.count, "seed \(seed)")
            }
        }
    }
}
