import TestSupport
import Testing

@Suite("9 Limits", .ownThread, .serialized, .timeLimit(.minutes(15))) struct SizeConformanceTests {
    /// A mask of zeros, which a client may draw like any other, saves the test work at such sizes.
    private func unmasked(_ frame: RawFrame) -> RawFrame {
        var frame = frame
        frame.mask = [0, 0, 0, 0]
        return frame
    }

    private func payload(_ count: Int, isText: Bool) -> [UInt8] {
        // By doubling: byte by byte takes a debug build seconds.
        var bytes = isText ? [0x2A] : (0..<251).map { UInt8($0) }
        while bytes.count < count { bytes += bytes }
        return Array(bytes.prefix(count))
    }

    private func check(_ frames: [RawFrame], gets payload: [UInt8], isText: Bool, in echo: Echo) throws {
        let client = try echo.client()
        client.socket.send(frames.flatMap(\.bytes) + RawFrame.close(1000).bytes)
        // Compared without being printed.
        let seen = try client.rest()
        let isRight = seen == [isText ? .text(payload) : .binary(payload), .close(1000), .end]
        #expect(isRight, "\(seen)")
    }

    @Test(arguments: [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20], [true, false])
    func longMessages(size: Int, isText: Bool) async throws {
        let echo = try await Echo()
        let payload = payload(size, isText: isText)
        let frame = isText ? RawFrame.text(payload) : .binary(payload)
        try check([size > 1 << 20 ? unmasked(frame) : frame], gets: payload, isText: isText, in: echo)
    }

    @Test(arguments: [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20], [true, false])
    func longMessagesInFragments(size: Int, isText: Bool) async throws {
        let echo = try await Echo()
        let payload = payload(4 << 20, isText: isText)
        let starts = stride(from: 0, to: payload.count, by: size)
        let frames = starts.map { start in
            let part = Array(payload[start..<min(start + size, payload.count)])
            let frame = start > 0 ? RawFrame.more(part) : isText ? .text(part) : .binary(part)
            return unmasked(start + size < payload.count ? frame.open : frame)
        }
        try check(frames, gets: payload, isText: isText, in: echo)
    }

    @Test(arguments: [64, 128, 256, 512, 1024, 2048], [true, false])
    func longMessagesInChops(size: Int, isText: Bool) async throws {
        let echo = try await Echo()
        let payload = payload(1 << 20, isText: isText)
        let bytes = unmasked(isText ? RawFrame.text(payload) : .binary(payload)).bytes
        let client = try echo.client()
        for start in stride(from: 0, to: bytes.count, by: size) {
            client.socket.send(Array(bytes[start..<min(start + size, bytes.count)]))
        }
        client.socket.send(RawFrame.close(1000).bytes)
        let seen = try client.rest()
        let isRight = seen == [isText ? .text(payload) : .binary(payload), .close(1000), .end]
        #expect(isRight, "\(seen)")
    }

    @Test(arguments: [0, 16, 64, 256, 1024, 4096]) func oneAfterTheOther(size: Int) async throws {
        let echo = try await Echo()
        for isText in [true, false] {
            let client = try echo.client()
            let payload = payload(size, isText: isText)
            let bytes = (isText ? RawFrame.text(payload) : .binary(payload)).bytes
            for _ in 0..<1000 {
                client.socket.send(bytes)
                try #require(try client.next() == (isText ? .text(payload) : .binary(payload)))
            }
        }
    }

    /// Sends everything, and reads only afterwards: nothing is lost or out of order.
    @Test func manyAtOnce() async throws {
        let echo = try await Echo()
        let texts = (0..<5000).map { "message \($0)" }
        let client = try echo.client()
        client.socket.send(texts.flatMap { RawFrame.text($0).bytes } + RawFrame.close(1000).bytes)
        let seen = try client.rest()
        #expect(seen == texts.map { .text($0) } + [.close(1000), .end])
    }

    /// At the bound and one past it, in one frame and in fragments; detected by the header, before any payload byte.
    @Test func messagesAreBounded() async throws {
        let echo = try await Echo { $0.limits.messageBytesMax = 1000 }
        let most = String(repeating: "x", count: 1000)
        try EchoCase("at the bound", [.text(most)], gets: [.text(most)]).check(echo, cuts: [.whole, .frames])
        try EchoCase("in two", [.text("").open, .more(most)], gets: [.text(most)]).check(echo, cuts: [.whole, .frames])
        try EchoCase("past it", [.text(most + "x")], thenFails: 1009).check(echo, cuts: [.whole, .frames])
        try EchoCase("past it, in two", [.text("x").open, .more(most)], thenFails: 1009)
            .check(echo, cuts: [.whole, .frames])
        let client = try echo.client()
        client.socket.send(Array(RawFrame.binary([UInt8](repeating: 0, count: 1001)).bytes[..<8]))
        #expect(try client.rest() == [.close(1009), .end])
    }
}

@Suite("10 Auto-fragmentation", .ownThread, .timeLimit(.minutes(15))) struct AutoFragmentationConformanceTests {
    /// Fragments are answered by one frame: the echo is per message (RFC 6455 §5.4).
    @Test(arguments: [1, 2, 1300, 65_535, 65_536]) func inFragmentsOf(size: Int) async throws {
        let echo = try await Echo()
        let payload = [UInt8](repeating: 0x2A, count: 65_536)
        let frames = stride(from: 0, to: payload.count, by: size).map { start in
            let end = min(start + size, payload.count)
            let part = Array(payload[start..<end])
            let frame = start == 0 ? RawFrame.text(part) : .more(part)
            return end < payload.count ? frame.open : frame
        }
        let client = try echo.client()
        client.socket.send(frames.flatMap(\.bytes) + RawFrame.close(1000).bytes)
        #expect(try client.rest() == [.text(payload), .close(1000), .end])
    }
}
