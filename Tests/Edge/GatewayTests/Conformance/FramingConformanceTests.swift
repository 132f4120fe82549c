import TestSupport
import Testing

// The families of Autobahn's suite as our own tests on the same transport, for machines without Python 2.7 (`make
// conformance` runs the suite itself). They go further where that is cheap: every split point.

/// A conversation: the client's frames, and all the server's answers.
struct EchoCase: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let frames: [RawFrame]
    let answers: [Answer]

    /// The client closes with 1000 after its frames, and the server answers the close.
    init(_ name: String, _ frames: [RawFrame], gets answers: [Answer]) {
        testDescription = name
        self.frames = frames + [.close(1000)]
        self.answers = answers + [.close(1000), .end]
    }

    /// The server fails the connection after those answers. The client's further frames are ignored.
    init(_ name: String, _ frames: [RawFrame], gets answers: [Answer] = [], thenFails code: UInt16) {
        testDescription = name
        self.frames = frames + [.ping("not answered"), .close(1000)]
        self.answers = answers + [.close(code), .end]
    }

    /// Checks it for every way of cutting the frames.
    func check(_ echo: Echo, cuts: [Cut] = Cut.allCases) throws {
        for cut in cuts {
            for pieces in cut.pieces(of: frames) {
                let seen = try echo.answers(to: pieces)
                try #require(seen == answers, "cut: \(cut), pieces of \(pieces.map(\.count))")
            }
        }
    }
}

@Suite("1 Framing", .ownThread, .timeLimit(.minutes(15))) struct FramingConformanceTests {
    private static let sizes = [0, 1, 125, 126, 127, 128, 65_535, 65_536]

    @Test(arguments: sizes) func messagesOfEverySize(size: Int) async throws {
        let echo = try await Echo()
        let text = [UInt8](repeating: 0x2A, count: size)
        let binary = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let cuts: [Cut] = size < 1000 ? Cut.allCases : [.whole, .frames]
        try EchoCase("text", [.text(text)], gets: [.text(text)]).check(echo, cuts: cuts)
        try EchoCase("binary", [.binary(binary)], gets: [.binary(binary)]).check(echo, cuts: cuts)
    }

    /// A length field longer than needed is the peer's error (RFC 6455 §5.2).
    @Test(arguments: [(0, 2), (125, 2), (0, 8), (125, 8), (126, 8), (65_535, 8)])
    func lengthsAreMinimal(size: Int, lengthBytes: Int) async throws {
        let echo = try await Echo()
        var frame = RawFrame.binary([UInt8](repeating: 0, count: size))
        frame.lengthBytes = lengthBytes
        try EchoCase("longer than need be", [.text("before"), frame], gets: [.text("before")], thenFails: 1002)
            .check(echo, cuts: size < 1000 ? Cut.allCases : [.whole, .frames])
    }

    @Test func theLengthHasSixtyThreeBits() async throws {
        let echo = try await Echo()
        for first in [0x80, 0xFF] as [UInt8] {
            let header = [0x82, 0xFF, first, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
            let seen = try echo.answers(to: [header[...]])
            #expect(seen == [.close(1002), .end])
        }
    }

    @Test func inChops() async throws {
        let echo = try await Echo()
        let payload = [UInt8](repeating: 0x2A, count: 65_536)
        for frame in [RawFrame.text(payload), .binary(payload)] {
            let bytes = frame.bytes + RawFrame.close(1000).bytes
            let chops = stride(from: 0, to: bytes.count, by: 997).map { bytes[$0..<min($0 + 997, bytes.count)] }
            let answer = frame.opcode == 1 ? Answer.text(payload) : .binary(payload)
            #expect(try echo.answers(to: chops) == [answer, .close(1000), .end])
        }
    }

    /// RFC 6455 §5.1.
    @Test func onlyMaskedFrames() async throws {
        let echo = try await Echo()
        for opcode in [1, 2, 8, 9, 10] as [UInt8] {
            let bare = RawFrame(opcode: opcode, payload: [], mask: nil)
            try EchoCase("bare \(opcode)", [.text("before"), bare], gets: [.text("before")], thenFails: 1002).check(
                echo)
        }
    }
}

@Suite("2 Pings and pongs", .ownThread, .timeLimit(.minutes(15))) struct PingConformanceTests {
    private static let odd: [UInt8] = [0x00, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0x00, 0xFF]
    private static let longest = [UInt8](repeating: 0xFE, count: 125)

    @Test(
        arguments: [
            EchoCase("empty", [.ping("")], gets: [.pong("")]),
            EchoCase("text", [.ping("Hello, world!")], gets: [.pong("Hello, world!")]),
            EchoCase("no text", [RawFrame(opcode: 9, payload: odd)], gets: [.pong(odd)]),
            EchoCase("the longest", [RawFrame(opcode: 9, payload: longest)], gets: [.pong(longest)]),
            EchoCase("one byte too long", [RawFrame(opcode: 9, payload: longest + [0])], thenFails: 1002),
            EchoCase("pong too long", [RawFrame(opcode: 10, payload: longest + [0])], thenFails: 1002),
            EchoCase("a pong is not answered", [.pong("")], gets: []),
            EchoCase("nor one with a payload", [.pong("unasked")], gets: []),
            EchoCase("pong, then ping", [.pong("unasked"), .ping("p")], gets: [.pong("p")]),
            EchoCase("ten", (0..<10).map { .ping("payload-\($0)") }, gets: (0..<10).map { .pong("payload-\($0)") }),
        ]) func pings(_ it: EchoCase) async throws
    {
        try it.check(try await Echo())
    }
}

@Suite("3 Reserved bits", .ownThread, .timeLimit(.minutes(15))) struct ReservedBitConformanceTests {
    /// No extension is negotiated here, so no reserved bit may be set (RFC 6455 §5.2).
    @Test(arguments: 1...7 as ClosedRange<UInt8>) func reservedBits(_ bits: UInt8) async throws {
        let echo = try await Echo()
        for frame in [RawFrame.text("Hi"), .binary([1]), .ping("p"), .pong("q"), .close(1000)] {
            try EchoCase("alone", [frame.reserved(bits)], thenFails: 1002).check(echo)
            try EchoCase("behind", [.text("*"), frame.reserved(bits)], gets: [.text("*")], thenFails: 1002).check(echo)
        }
        try EchoCase("on a continuation", [.text("*").open, .more("x").reserved(bits)], thenFails: 1002).check(echo)
    }
}

@Suite("4 Opcodes", .ownThread, .timeLimit(.minutes(15))) struct OpcodeConformanceTests {
    @Test(arguments: [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] as [UInt8]) func reservedOpcodes(_ opcode: UInt8) async throws
    {
        let echo = try await Echo()
        for payload in [[], Array("Hi".utf8)] as [[UInt8]] {
            let frame = RawFrame(opcode: opcode, payload: payload)
            try EchoCase("alone", [frame], thenFails: 1002).check(echo)
            try EchoCase("behind", [.text("*"), frame], gets: [.text("*")], thenFails: 1002).check(echo)
            try EchoCase("within a message", [.text("*").open, frame], thenFails: 1002).check(echo)
        }
    }

    /// Detected by its first byte, before the rest of the frame.
    @Test func theFirstByteWillDo() async throws {
        let echo = try await Echo()
        for first in [0x83, 0x8B, 0x8F, 0xC1, 0xA1, 0x91, 0x80, 0x09, 0x08] as [UInt8] {
            let client = try echo.client()
            client.socket.send([first])
            let expected: [Answer] = [.close(1002), .end]
            // A continuation without a message is detected by its header.
            if first == 0x80 { client.socket.send([0x80, 0, 0, 0, 0]) }
            #expect(try client.rest() == expected, "\(first)")
        }
    }
}

@Suite("5 Fragmentation", .ownThread, .timeLimit(.minutes(15))) struct FragmentationConformanceTests {
    private static let fragments: [RawFrame] = [.text("fragment1").open, .more("fragment2")]
    private static let whole = Answer.text("fragment1fragment2")

    @Test(
        arguments: [
            EchoCase("ping in fragments", [.ping("a").open, .more("b")], thenFails: 1002),
            EchoCase("pong in fragments", [.pong("a").open, .more("b")], thenFails: 1002),
            EchoCase("close in fragments", [RawFrame.close(1000).open, .more("b")], thenFails: 1002),
            EchoCase("two fragments", fragments, gets: [whole]),
            EchoCase(
                "a ping between", [.text("fragment1").open, .ping("p"), .more("fragment2")], gets: [.pong("p"), whole]),
            EchoCase("nothing to continue", [.more("x"), .text("Hello")], thenFails: 1002),
            EchoCase("nothing to continue, open", [RawFrame.more("x").open, .text("Hello")], thenFails: 1002),
            EchoCase(
                "nothing left to continue", fragments + [RawFrame.more("x").open, .text("Hello")], gets: [whole],
                thenFails: 1002),
            EchoCase("twice", [RawFrame.more("x").open] + fragments + fragments, thenFails: 1002),
            EchoCase("twice, whole", [.more("x")] + fragments + fragments, thenFails: 1002),
            EchoCase("text in text", [.text("a").open, .text("b")], thenFails: 1002),
            EchoCase("binary in text", [.text("a").open, .binary([1]).open], thenFails: 1002),
            EchoCase("text in binary", [RawFrame.binary([1]).open, .text("b")], thenFails: 1002),
            EchoCase(
                "five with pings between",
                [
                    .text("1").open, RawFrame.more("2").open, .ping("a"), RawFrame.more("3").open,
                    RawFrame.more("4").open, .ping("b"), .more("5"),
                ], gets: [.pong("a"), .pong("b"), .text("12345")]),
            EchoCase(
                "empty ones", [.text("").open, RawFrame.more("").open, .more(""), .text("").open, .more("x")],
                gets: [.text(""), .text("x")]),
            EchoCase(
                "binary, then text", [RawFrame.binary([0xFF]).open, .more([0xFE]), .text("t").open, .more("u")],
                gets: [.binary([0xFF, 0xFE]), .text("tu")]),
        ]) func fragmentation(_ it: EchoCase) async throws
    {
        try it.check(try await Echo())
    }

    /// At the bound, and one past it.
    @Test func fragmentsAreBounded() async throws {
        let echo = try await Echo { $0.limits.messageFragmentsMax = 5 }
        let three = [RawFrame](repeating: RawFrame.more("x").open, count: 3)
        let five = [.text("x").open] + three + [.more("x")]
        try EchoCase("five", five + [.ping("p")] + five, gets: [.text("xxxxx"), .pong("p"), .text("xxxxx")]).check(echo)
        try EchoCase("six", [.text("x").open] + three + [RawFrame.more("x").open, .more("x")], thenFails: 1008)
            .check(echo)
        try EchoCase("six, empty", [.text("").open] + three + [RawFrame.more("").open, .more("")], thenFails: 1008)
            .check(echo)
    }
}
