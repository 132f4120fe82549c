import Bytes
import TestSupport
import Testing
import WebSocket

@Suite(.timeLimit(.minutes(15))) struct FrameWriterTests {
    private static let sizes = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000]

    @Test(arguments: sizes) func writesTextFrames(size: Int) {
        let payload = String(repeating: "é", count: size / 2) + String(repeating: "x", count: size % 2)
        let expected = frame(1, Array(payload.utf8), mask: nil)
        let bytes = Array(payload.utf8)
        #expect(withBytes(bytes) { FrameWriter.text($0) }.array == expected)
        #expect(FrameWriter.text(capacity: 1) { $0.append(utf8: payload) }.array == expected)
        #expect(FrameWriter.text(capacity: 200_000) { $0.append(utf8: payload) }.array == expected)
        var writer = ByteWriter()
        writer.append("before")
        FrameWriter.appendText(to: &writer) { $0.append(utf8: payload) }
        FrameWriter.appendText(to: &writer) { $0.append(utf8: payload) }
        #expect(writer.array == Array("before".utf8) + expected + expected)
    }

    @Test(arguments: sizes) func clientsAndServersUnderstandEachOther(size: Int) {
        var limits = MessageLimits()
        limits.messageBytes = 100_000
        let payload = [UInt8](repeating: 0x61, count: size)
        var writer = ByteWriter()
        withBytes(payload) { FrameWriter.append(masked: Opcode.text, $0, mask: 0x8040_2011, to: &writer) }
        #expect(read(writer.array, limits: limits) == [.text(String(decoding: payload, as: UTF8.self))])
        #expect(writer.array[1] & 0x80 != 0)
        let bare = withBytes(payload) { FrameWriter.text($0) }.array
        #expect(read(bare, role: .client, limits: limits) == [.text(String(decoding: payload, as: UTF8.self))])
    }

    @Test func writesFragments() {
        var writer = ByteWriter()
        withBytes("Hel") { FrameWriter.append(masked: Opcode.text, $0, mask: 1, isFinal: false, to: &writer) }
        withBytes("lo") { FrameWriter.append(masked: Opcode.continuation, $0, mask: 2, to: &writer) }
        #expect(read(writer.array) == [.text("Hello")])
    }

    @Test func writesControlFrames() {
        var writer = ByteWriter()
        withBytes([UInt8](repeating: 0x61, count: 125)) { FrameWriter.append(control: Opcode.ping, $0, to: &writer) }
        withBytes([UInt8](repeating: 0x61, count: 126)) { FrameWriter.append(control: Opcode.pong, $0, to: &writer) }
        FrameWriter.appendClose(.goingAway, reason: "bye", to: &writer)
        let longest = String(repeating: "a", count: 125)
        #expect(read(writer.array, role: .client) == [.ping(longest), .pong(longest), .close(1001)])
        #expect(writer.array.suffix(7) == [0x88, 5, 0x03, 0xE9, 0x62, 0x79, 0x65])
        writer.removeAll()
        FrameWriter.appendClose(nil, to: &writer)
        #expect(writer.array == [0x88, 0])
    }

    @Test func smallFramesKeepNoLargeMemory() {
        let frame = FrameWriter.text(capacity: 100_000) { $0.append("small") }
        #expect(frame.array == [0x81, 5] + Array("small".utf8))
    }
}
