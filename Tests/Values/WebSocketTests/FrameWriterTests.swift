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
        #expect(withBytes(bytes) { FrameWriter.frame(Opcode.text, $0) }.array == expected)
        for capacity in [1, 200_000] {
            let message = { Messages(capacity: capacity) { $0.append(utf8: payload) } }
            #expect(FrameWriter.frames(of: message()).array == expected)
            let held = message()
            #expect(FrameWriter.frames(of: held).array == expected)
            held.each { #expect(Array($0) == bytes) }
        }
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
        let bare = withBytes(payload) { FrameWriter.frame(Opcode.text, $0) }.array
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
        let frame = FrameWriter.frames(of: Messages(capacity: 100_000) { $0.append("small") })
        #expect(frame.array == [0x81, 5] + Array("small".utf8))
    }

    private func messages(_ sizes: [Int]) -> Messages {
        var writer = ByteWriter()
        for (index, size) in sizes.enumerated() {
            Messages.append(to: &writer) { $0.append([UInt8](repeating: 0x61 + UInt8(index), count: size)) }
        }
        return Messages(writer)
    }

    @Test(arguments: [[], [0, 0], [125, 126], [126, 125, 3], [65_535, 1], [1, 65_536, 1], [70_000, 70_000]])
    func framesOfSeveralMessages(_ sizes: [Int]) {
        let expected = sizes.enumerated().flatMap { index, size in
            frame(1, [UInt8](repeating: 0x61 + UInt8(index), count: size), mask: nil)
        }
        #expect(FrameWriter.frames(of: messages(sizes)).array == expected, "where they lie, if they can")
        let held = messages(sizes)
        #expect(FrameWriter.frames(of: held).array == expected, "in a copy")
        var seen: [Int] = []
        held.each { seen.append($0.count) }
        #expect(seen == sizes, "and what is held stays what it was")
    }

    /// The common case: a message for one session, or a broadcast.
    @Test(arguments: [1, 125, 126, 65_535]) func messagesAreFramedWhereTheyLie(size: Int) {
        let message = messages([size])
        var address: UnsafeRawPointer?
        message.each { address = $0.baseAddress }
        let frame = FrameWriter.frames(of: consume message)
        #expect(frame.baseAddress + FrameWriter.headerCount(size) == address)
    }
}
