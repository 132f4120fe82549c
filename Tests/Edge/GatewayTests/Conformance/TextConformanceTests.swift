import TestSupport
import Testing

@Suite("6 UTF-8", .ownThread, .timeLimit(.minutes(15))) struct TextConformanceTests {
    /// Characters at the edges of one to four bytes and beside the surrogates (RFC 3629 §3); noncharacters are characters.
    private static let scalars: [UInt32] = [
        0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xFDD0, 0xFFFD, 0xFFFE, 0xFFFF,
        0x1_0000, 0x1_FFFE, 0x3_FFFF, 0x4_0000, 0xF_FFFF, 0x10_0000, 0x10_FFFF,
    ]

    /// Invalid UTF-8 (RFC 3629 §3, §4), with the first byte that shows it.
    static let broken: [([UInt8], at: Int)] = [
        // Continuation bytes without a start, and bytes that start nothing.
        ([0x80], 0), ([0xBF], 0), ([0xC0], 0), ([0xC1], 0), ([0xF5], 0), ([0xF8], 0), ([0xFC], 0), ([0xFE], 0),
        ([0xFF], 0),
        // Overlong forms.
        ([0xE0, 0x80], 1), ([0xE0, 0x9F], 1), ([0xF0, 0x80], 1), ([0xF0, 0x8F], 1),
        // Surrogates, and above U+10FFFF.
        ([0xED, 0xA0], 1), ([0xED, 0xBF], 1), ([0xF4, 0x90], 1), ([0xF4, 0xBF], 1),
        // Too few continuation bytes.
        ([0xC2, 0x41], 1), ([0xDF, 0xC3], 1), ([0xE1, 0x41], 1), ([0xE1, 0x80, 0x41], 2), ([0xEF, 0xBF, 0xC0], 2),
        ([0xF1, 0x41], 1), ([0xF1, 0x80, 0x41], 2), ([0xF1, 0x80, 0x80, 0x41], 3), ([0xF4, 0x8F, 0xBF, 0x7F], 3),
    ]

    /// Two whole characters of two and three bytes, placed before the bytes under test.
    private static let before = Array("κὐ".utf8)

    private static func encoded(_ scalar: UInt32) -> [UInt8] {
        Array(String(Character(Unicode.Scalar(scalar) ?? "?")).utf8)
    }

    @Test(arguments: scalars) func everyCharacterInEveryFragment(_ scalar: UInt32) async throws {
        let echo = try await Echo()
        let text = Self.before + Self.encoded(scalar) + [0x78]
        try EchoCase("whole", [.text(text)], gets: [.text(text)]).check(echo)
        for split in 0...text.count {
            let parts: [RawFrame] = [
                .text(Array(text[..<split])).open, RawFrame.more("").open, .more(Array(text[split...])),
            ]
            try EchoCase("split at \(split)", parts, gets: [.text(text)]).check(echo, cuts: [.whole, .octets])
        }
        let octets = [RawFrame.text("").open] + text.map { RawFrame.more([$0]).open } + [.more("")]
        try EchoCase("a fragment for each byte", octets, gets: [.text(text)]).check(echo)
    }

    @Test func emptyFragments() async throws {
        let echo = try await Echo()
        let empty = RawFrame.more("").open
        try EchoCase("nothing", [.text("")], gets: [.text("")]).check(echo)
        try EchoCase("three times", [.text("").open, empty, .more("")], gets: [.text("")]).check(echo)
        try EchoCase("around", [.text("").open, RawFrame.more("x").open, .more("")], gets: [.text("x")]).check(echo)
    }

    @Test(arguments: broken.indices) func whatIsNoTextFails(_ index: Int) async throws {
        let echo = try await Echo()
        let text = Self.before + Self.broken[index].0 + Array("edited".utf8)
        try EchoCase("whole", [.text(text)], thenFails: 1007).check(echo)
        try EchoCase("behind a message", [.text("fine"), .text(text)], gets: [.text("fine")], thenFails: 1007)
            .check(echo, cuts: [.whole, .octets])
        for split in 0...text.count {
            let parts: [RawFrame] = [.text(Array(text[..<split])).open, .more(Array(text[split...]))]
            try EchoCase("split at \(split)", parts, thenFails: 1007).check(echo, cuts: [.whole, .octets])
        }
        let octets = [RawFrame.text("").open] + text.map { RawFrame.more([$0]).open } + [.more("")]
        try EchoCase("a fragment for each byte", octets, thenFails: 1007).check(echo, cuts: [.whole, .octets])
        // Binary messages are exempt.
        try EchoCase("binary", [.binary(text)], gets: [.binary(text)]).check(echo)
    }

    /// A text must end with a whole character.
    @Test(arguments: scalars.filter { $0 > 0x7F }) func unfinishedCharactersFail(_ scalar: UInt32) async throws {
        let echo = try await Echo()
        let character = Self.encoded(scalar)
        for count in 1..<character.count {
            let text = Self.before + character.prefix(count)
            try EchoCase("\(count) bytes", [.text(text)], thenFails: 1007).check(echo)
            try EchoCase("\(count) bytes, then nothing", [.text(text).open, .more("")], thenFails: 1007).check(echo)
            // The next message does not continue it.
            let rest = Array(character.dropFirst(count))
            try EchoCase("then the rest", [.text(text), .text(rest)], thenFails: 1007).check(echo, cuts: [.whole])
        }
    }

    /// The first wrong byte ends the connection, and no earlier one, however much of the frame and the message is missing.
    @Test(arguments: broken.indices) func failsFast(_ index: Int) async throws {
        let echo = try await Echo()
        let (sequence, at) = Self.broken[index]
        let text = Self.before + sequence
        let bad = Self.before.count + at
        // Within one frame, which announces 500 bytes more.
        let frame = RawFrame.text(text + [UInt8](repeating: 0x78, count: 500)).bytes
        let header = frame.count - 500 - text.count
        for start in 0...bad {
            let client = try echo.client()
            client.socket.send(Array(frame[..<(header + start)]))
            client.socket.send(Array(frame[(header + start)..<(header + bad)]))
            try echo.settle()
            try #require(client.socket.isQuiet, "too early")
            client.socket.send([frame[header + bad]])
            #expect(try client.rest() == [.close(1007), .end])
        }
        // In a fragment that others would follow.
        for split in 0...bad {
            let client = try echo.client()
            client.socket.send(RawFrame.text(Array(text[..<split])).open.bytes)
            client.socket.send(RawFrame.more(Array(text[split..<bad])).open.bytes)
            client.socket.send(RawFrame.ping("between").bytes)
            #expect(try client.next() == .pong("between"))
            client.socket.send(RawFrame.more([text[bad]]).open.bytes)
            #expect(try client.rest() == [.close(1007), .end])
        }
    }
}
