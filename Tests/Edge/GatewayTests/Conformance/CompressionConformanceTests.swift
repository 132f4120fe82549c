import TestSupport
import Testing

/// A client's offer, and the expected answer.
struct DeflateOffer: CustomTestStringConvertible, Sendable {
    let offer: String
    /// The extension as the server agrees to it; nil if it declines.
    let answer: String?
    /// The server's window then.
    let windowBits: Int32

    var testDescription: String { offer }
    var field: String { "Sec-WebSocket-Extensions: \(offer)\r\n" }

    private static let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

    static let plain = DeflateOffer(offer: "permessage-deflate", answer: agreed, windowBits: 15)
    /// The offers of family 13, and Chrome's.
    static let all = [
        plain,
        DeflateOffer(offer: "permessage-deflate; client_max_window_bits", answer: agreed, windowBits: 15),
        DeflateOffer(offer: "permessage-deflate; server_no_context_takeover", answer: agreed, windowBits: 15),
        DeflateOffer(
            offer: "permessage-deflate; client_no_context_takeover; client_max_window_bits", answer: agreed,
            windowBits: 15),
        DeflateOffer(
            offer: "permessage-deflate; server_max_window_bits=9", answer: agreed + "; server_max_window_bits=9",
            windowBits: 9),
        DeflateOffer(
            offer: "permessage-deflate; server_max_window_bits=15", answer: agreed + "; server_max_window_bits=15",
            windowBits: 15),
        DeflateOffer(
            offer: "permessage-deflate; server_no_context_takeover; server_max_window_bits=9",
            answer: agreed + "; server_max_window_bits=9", windowBits: 9),
        DeflateOffer(
            offer: "permessage-deflate; server_no_context_takeover; server_max_window_bits=15",
            answer: agreed + "; server_max_window_bits=15", windowBits: 15),
        DeflateOffer(
            offer: "permessage-deflate; server_no_context_takeover; server_max_window_bits=9, "
                + "permessage-deflate; server_no_context_takeover, permessage-deflate",
            answer: agreed + "; server_max_window_bits=9", windowBits: 9),
        DeflateOffer(
            offer: "permessage-unknown, permessage-deflate; server_max_window_bits=7, permessage-deflate",
            answer: agreed, windowBits: 15),
        DeflateOffer(offer: "permessage-unknown", answer: nil, windowBits: 15),
    ]
}

enum Matter: String, CaseIterable, Sendable {
    /// JSON text as in events.
    case json
    case blank
    case noise

    func bytes(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
        switch self {
        case .blank: return [UInt8](repeating: 0x20, count: count)
        case .noise:
            let words = (0..<count / 8 + 1).map { _ in random.next() }
            return Array(words.withUnsafeBytes { $0.prefix(count) })
        case .json:
            var text = ""
            while text.utf8.count < count {
                text +=
                    #"{"occurrenceId":"d-\#(random.next() % 1000)","status":"taken","note":"wörd","rev":\#(text.count)},"#
            }
            // Cut at a character's end, and filled up.
            var bytes = Array(text.utf8.prefix(count))
            while let last = bytes.last, last >= 0x80 { bytes.removeLast() }
            return bytes + [UInt8](repeating: 0x2E, count: count - bytes.count)
        }
    }
}

/// Sends a compressed message, in fragments of that size if given, and expects it back.
private func exchange(
    _ payload: [UInt8], isText: Bool, fragments: Int?, _ client: EchoClient, _ comment: String
) throws {
    let compressed = try Flate.deflate(payload)
    let size = fragments ?? max(1, compressed.count)
    let starts = Array(stride(from: 0, to: max(1, compressed.count), by: size))
    for start in starts {
        let part = Array(compressed[start..<min(start + size, compressed.count)])
        var frame = RawFrame(opcode: start > 0 ? 0 : isText ? 1 : 2, payload: part)
        // Only the first frame of a message has the compressed bit (RFC 7692 §6).
        frame.reserved = start > 0 ? 0 : 4
        frame.isFinal = start == starts.last
        client.socket.send(frame.bytes)
    }
    let answer = try client.next()
    let isRight = answer == (isText ? .text(payload) : .binary(payload))
    try #require(isRight, "\(comment): \(answer)")
}

@Suite("12 Compression, payloads", .ownThread, .timeLimit(.minutes(15))) struct CompressedPayloadConformanceTests {
    /// Sizes of messages and of their fragments.
    private static let sizes: [(Int, Int?)] = [
        (0, nil), (1, nil), (16, nil), (64, nil), (256, nil), (1024, nil), (4096, nil), (8192, nil), (16_384, nil),
        (32_768, nil), (65_536, nil), (131_072, nil), (8192, 256), (16_384, 256), (32_768, 256), (65_536, 256),
        (131_072, 256), (131_072, 1024), (131_072, 4096), (131_072, 32_768), (1024, 1),
    ]

    @Test(arguments: Matter.allCases, sizes) func messages(_ matter: Matter, _ sizes: (Int, Int?)) async throws {
        let echo = try await Echo { $0.compression?.threshold = 0 }
        let client = try echo.client(fields: DeflateOffer.plain.field)
        client.windowBits = 15
        var random = SeededRandom()
        for number in 0..<4 {
            let isText = matter != .noise && number % 2 == 0
            try exchange(
                matter.bytes(sizes.0, &random), isText: isText, fragments: sizes.1, client,
                "message \(number), seed \(random.seed)")
        }
        // Those that can get smaller were sent compressed.
        #expect(client.compressedCount == (matter == .noise || sizes.0 < 64 ? client.compressedCount : 4))
        client.socket.send(RawFrame.close(1000).bytes)
        #expect(try client.rest() == [.close(1000), .end])
    }

    /// A compressed message with any fragmentation, a ping between its fragments and a plain message after it.
    @Test func everySplit() async throws {
        let echo = try await Echo { $0.compression?.threshold = 0 }
        let text = String(repeating: "to be or not to be; ", count: 5)
        let compressed = try Flate.deflate(Array(text.utf8))
        for middle in 0...compressed.count {
            var first = RawFrame.text(Array(compressed[..<middle])).open
            first.reserved = 4
            let frames: [RawFrame] = [
                first, .ping("between"), .more(Array(compressed[middle...])), .text("plain"), .close(1000),
            ]
            for cut in [Cut.whole, .octets] {
                for pieces in cut.pieces(of: frames) {
                    let seen = try echo.answers(to: pieces, fields: DeflateOffer.plain.field, windowBits: 15)
                    try #require(
                        seen == [.pong("between"), .text(text), .text("plain"), .close(1000), .end],
                        "split at \(middle), \(cut)")
                }
            }
        }
    }

    /// RFC 7692 §6: only a message's first frame has the bit, and no control frame.
    @Test func whereTheBitMeansNothing() async throws {
        let echo = try await Echo()
        let compressed = try Flate.deflate(Array("to be or not to be".utf8))
        var first = RawFrame.text(Array(compressed[..<4])).open
        first.reserved = 4
        let rest = RawFrame.more(Array(compressed[4...])).reserved(4)
        for frames in [[first, rest], [RawFrame.ping("p").reserved(4)], [.close(1000).reserved(4)]] {
            for cut in Cut.allCases {
                for pieces in cut.pieces(of: frames) {
                    let seen = try echo.answers(to: pieces, fields: DeflateOffer.plain.field, windowBits: 15)
                    try #require(seen == [.close(1002), .end])
                }
            }
        }
        // The other two bits still mean nothing.
        for bits in [1, 2, 3, 5, 6, 7] as [UInt8] {
            let frame = RawFrame.text(compressed).reserved(bits).bytes
            let seen = try echo.answers(to: [frame[...]], fields: DeflateOffer.plain.field, windowBits: 15)
            #expect(seen == [.close(1002), .end])
        }
    }

    /// UTF-8 is checked during decompression (RFC 6455 §8.1 makes no difference).
    @Test(arguments: TextConformanceTests.broken.indices) func whatIsNoText(_ index: Int) async throws {
        let echo = try await Echo()
        let text = Array("κόσμε".utf8) + TextConformanceTests.broken[index].0 + Array("edited".utf8)
        let frame = RawFrame.text(try Flate.deflate(text)).reserved(4)
        for cut in [Cut.whole, .everySplit] {
            for pieces in cut.pieces(of: [frame]) {
                let seen = try echo.answers(to: pieces, fields: DeflateOffer.plain.field, windowBits: 15)
                try #require(seen == [.close(1007), .end])
            }
        }
    }
}

@Suite("13 Compression, parameters", .ownThread, .timeLimit(.minutes(15)))
struct CompressionParameterConformanceTests {
    @Test(arguments: DeflateOffer.all) func offers(_ offer: DeflateOffer) async throws {
        let echo = try await Echo { $0.compression?.threshold = 0 }
        let client = try echo.client(fields: offer.field)
        let answer = client.responseHead.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Extensions: ") }
        #expect(answer?.dropFirst("Sec-WebSocket-Extensions: ".count).description == offer.answer)
        guard offer.answer != nil else {
            client.socket.send(RawFrame.text("plain").bytes)
            #expect(try client.next() == .text("plain"))
            client.socket.send(RawFrame.text("no").reserved(4).bytes)
            #expect(try client.rest() == [.close(1002), .end])
            return
        }
        client.windowBits = offer.windowBits
        var random = SeededRandom()
        for (size, fragments) in [(16, nil), (256, nil), (8192, nil), (131_072, nil), (131_072, 4096)] as [(Int, Int?)]
        {
            for matter in Matter.allCases {
                try exchange(
                    matter.bytes(size, &random), isText: matter != .noise, fragments: fragments, client,
                    "\(matter) of \(size), seed \(random.seed)")
            }
        }
        #expect(client.compressedCount > 0)
    }
}
