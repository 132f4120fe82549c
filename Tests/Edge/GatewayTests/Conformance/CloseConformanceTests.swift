import TestSupport
import Testing

@Suite("7 Closing", .ownThread, .timeLimit(.minutes(15))) struct CloseConformanceTests {
    /// A client's frames with its close frame among them, and the server's answers; nothing follows the server's close
    /// frame.
    private func check(
        _ frames: [RawFrame], gets answers: [Answer], cuts: [Cut] = Cut.allCases, in echo: Echo
    ) throws {
        for cut in cuts {
            for pieces in cut.pieces(of: frames) {
                let seen = try echo.answers(to: pieces)
                try #require(seen == answers + [.end], "cut: \(cut), pieces of \(pieces.map(\.count))")
            }
        }
    }

    @Test func whatFollowsAClose() async throws {
        let echo = try await Echo()
        let close = RawFrame.close(1000)
        try check([.text("Hello"), close], gets: [.text("Hello"), .close(1000)], in: echo)
        try check([close, close], gets: [.close(1000)], in: echo)
        try check([close, .close(1001)], gets: [.close(1000)], in: echo)
        try check([close, .ping("late")], gets: [.close(1000)], in: echo)
        try check([close, .text("late")], gets: [.close(1000)], in: echo)
        try check([close, RawFrame(opcode: 3, payload: [])], gets: [.close(1000)], in: echo)
        try check([.text("a").open, close, .more("b")], gets: [.close(1000)], in: echo)
    }

    /// A message is answered before the close that follows it, even if sending takes long (7.1.6).
    @Test func alsoBehindALongMessage() async throws {
        let echo = try await Echo()
        let long = [UInt8](repeating: 0x2A, count: 256 << 10)
        try check(
            [.text(long), .close(1000), .ping("late")], gets: [.text(long), .close(1000)], cuts: [.whole, .frames],
            in: echo)
    }

    @Test func payloads() async throws {
        let echo = try await Echo()
        let reason = [UInt8](repeating: 0x2A, count: 123)
        try check([RawFrame(opcode: 8, payload: [])], gets: [.close(nil)], in: echo)
        try check([RawFrame(opcode: 8, payload: [0x03])], gets: [.close(1002)], in: echo)
        try check([.close(1000)], gets: [.close(1000)], in: echo)
        try check([.close(1000, Array("Hello, wörld!".utf8))], gets: [.close(1000)], in: echo)
        try check([.close(1000, reason)], gets: [.close(1000)], in: echo)
        try check([.close(1000, reason + [0x2A])], gets: [.close(1002)], in: echo)
    }

    @Test(arguments: TextConformanceTests.broken.indices) func reasonsAreText(_ index: Int) async throws {
        let echo = try await Echo()
        let reason = Array("κόσμε".utf8) + TextConformanceTests.broken[index].0
        try check([.close(1000, reason)], gets: [.close(1007)], cuts: [.whole, .octets], in: echo)
        try check([.close(1000, reason + Array("edited".utf8))], gets: [.close(1007)], cuts: [.whole], in: echo)
    }

    @Test(
        arguments: [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999]
            as [UInt16]) func goodCodes(_ code: UInt16) async throws
    {
        let echo = try await Echo()
        try check([.close(code)], gets: [.close(code)], in: echo)
        try check([.close(code, Array("why".utf8))], gets: [.close(code)], cuts: [.whole, .octets], in: echo)
    }

    /// RFC 6455 §7.4: codes reserved for other uses than on the wire, or unassigned (5000 and up: 7.13).
    @Test(
        arguments: [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 1999, 2000, 2999, 5000, 65_535] as [UInt16])
    func badCodes(_ code: UInt16) async throws {
        let echo = try await Echo()
        try check([.close(code)], gets: [.close(1002)], in: echo)
        try check([.close(code, Array("why".utf8))], gets: [.close(1002)], cuts: [.whole, .octets], in: echo)
    }

    /// A peer that ends its stream without a close frame, at any byte, harms nobody.
    @Test func aStreamMayEndAnywhere() async throws {
        let echo = try await Echo()
        let frames: [RawFrame] = [.text("Hello").open, .ping("p"), .more(", world"), .close(1000)]
        let bytes = frames.flatMap(\.bytes)
        for count in bytes.indices {
            let client = try echo.client()
            client.socket.send(Array(bytes[..<count]))
            client.socket.finishSending()
            let seen = try client.rest()
            #expect(seen.last == .end)
            #expect(!seen.contains { if case .wrong = $0 { true } else { false } }, "\(seen)")
        }
        try echo.settle()
    }
}
