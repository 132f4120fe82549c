import Bytes
import TestSupport
import Testing
import WebSocket

@Suite(.timeLimit(.minutes(15))) struct MessageReaderTests {
    /// Its size is part of the memory of a connection with an unfinished message.
    @Test func staysSmall() { #expect(MemoryLayout<MessageReader>.size <= 48) }

    /// RFC 6455 §5.7.
    @Test func specificationExamples() {
        #expect(read([0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]) == [.text("Hello")])
        #expect(read([0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F], role: .client) == [.text("Hello")])
        #expect(read([0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F], role: .client) == [.text("Hello")])
        #expect(read([0x89, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F], role: .client) == [.ping("Hello")])
        #expect(read([0x8A, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]) == [.pong("Hello")])
        let long = [UInt8](repeating: 7, count: 256)
        #expect(read([0x82, 0x7E, 0x01, 0x00] + long, role: .client) == [.binary(long)])
        let longer = [UInt8](repeating: 7, count: 65_536)
        #expect(read([0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0] + longer, role: .client) == [.binary(longer)])
    }

    @Test(
        arguments: [
            (frame(1, "Hello"), [.text("Hello")]), (frame(1, ""), [.text("")]),
            (frame(2, [0, 0xFF]), [.binary([0, 0xFF])]),
            (
                frame(9, "") + frame(10, "x") + frame(1, "é€𝄞 and more than a word"),
                [.ping(""), .pong("x"), .text("é€𝄞 and more than a word")]
            ),
            (
                frame(1, "κό", fin: false) + frame(9, "mid") + frame(0, "", fin: false) + frame(10, "")
                    + frame(0, "σμε"),
                [.ping("mid"), .pong(""), .text("κόσμε")]
            ),
            (
                frame(1, [0xE2], fin: false) + frame(0, [0x82], fin: false) + frame(0, [0xAC]) + frame(1, "x"),
                [.text("€"), .text("x")]
            ),
            (frame(1, "", fin: false) + frame(0, ""), [.text("")]),
            (frame(2, [0xFF], fin: false) + frame(0, [0xFE]), [.binary([0xFF, 0xFE])]),
            (frame(8, []), [.close(nil)]), (frame(8, [0x03, 0xE8]) + [0xFF, 0xFF], [.close(1000)]),
            (frame(8, [0x0F, 0xA0] + Array("bye é".utf8)) + frame(1, "late"), [.close(4000)]),
            (frame(1, "a", fin: false) + frame(8, [0x03, 0xE9]), [.close(1001)]),
            (frame(9, [UInt8](repeating: 0x61, count: 125)), [.ping(String(repeating: "a", count: 125))]),
            (frame(1, String(repeating: "b", count: 126)), [.text(String(repeating: "b", count: 126))]),
        ] as [([UInt8], [Seen])]) func readsAtEverySplit(bytes: [UInt8], expected: [Seen])
    {
        #expect(read(bytes) == expected)
        for split in 0...bytes.count { #expect(read(bytes, splits: [split]) == expected, "split \(split)") }
        #expect(read(bytes, splits: Array(0..<bytes.count)) == expected)
    }

    @Test(
        arguments: [
            (frame(1, [], rsv: 4), .reservedBits), (frame(1, [], rsv: 1), .reservedBits),
            (frame(3, []), .unknownOpcode),
            (frame(7, []), .unknownOpcode), (frame(11, []), .unknownOpcode), (frame(15, []), .unknownOpcode),
            (frame(1, [1], mask: nil), .notMasked), (frame(9, [], fin: false), .controlFragmented),
            (frame(9, [UInt8](repeating: 0, count: 126)), .controlTooLong), (frame(0, []), .unexpectedContinuation),
            (frame(0, [], fin: false), .unexpectedContinuation),
            (frame(1, "a", fin: false) + frame(1, "b"), .expectedContinuation),
            (frame(1, "a", fin: false) + frame(2, [], fin: false), .expectedContinuation),
            (frame(1, [1], lengthBytes: 2), .lengthNotMinimal), (frame(1, [1], lengthBytes: 8), .lengthNotMinimal),
            (frame(1, [UInt8](repeating: 0, count: 125), lengthBytes: 2), .lengthNotMinimal),
            (frame(2, [UInt8](repeating: 0, count: 65_535), lengthBytes: 8), .lengthNotMinimal),
            (frame(2, [], length: 1 << 63), .lengthNegative), (frame(2, [], length: UInt64.max), .lengthNegative),
            (frame(2, [], length: 1 << 30), .messageTooBig), (frame(2, [], length: UInt64(Int64.max)), .messageTooBig),
            (frame(8, [0x03]), .closePayload), (frame(8, [0x03, 0xED]), .closeCode), (frame(8, [0, 0]), .closeCode),
            (frame(8, [0x03, 0xE8, 0xFF]), .invalidUTF8), (frame(8, [0x03, 0xE8, 0xC3]), .invalidUTF8),
            (frame(1, [0xFF]), .invalidUTF8), (frame(1, [0xC3]), .invalidUTF8),
            (frame(1, [0xE2, 0x82], fin: false) + frame(0, []), .invalidUTF8),
            (frame(1, [0xE2], fin: false) + frame(0, [0x28]), .invalidUTF8),
        ] as [([UInt8], WebSocketError)]) func failsAtEverySplit(bytes: [UInt8], error: WebSocketError)
    {
        for split in 0...bytes.count where bytes.count < 1000 || split % 997 == 0 {
            #expect(read(bytes, splits: [split]).last == .failed(error), "split \(split)")
        }
    }

    @Test func clientsRefuseMaskedFrames() {
        #expect(read(frame(1, "a"), role: .client) == [.failed(.masked)])
    }

    @Test func failsBeforeTheMessageIsThere() {
        let text = frame(1, [0x61, 0xFF] + [UInt8](repeating: 0x61, count: 100))
        #expect(read(Array(text[..<8])) == [.failed(.invalidUTF8)])
        #expect(read([0xC1]) == [.failed(.reservedBits)])
        #expect(read([0x83]) == [.failed(.unknownOpcode)])
        #expect(read([0x81, 0x05]) == [.failed(.notMasked)])
        #expect(read([0x89, 0xFE]) == [.failed(.controlTooLong)])
    }

    @Test func closeCodesOfTheWire() {
        let valid: Set<Int> = [
            1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4000, 4999,
        ]
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] + valid {
            let expected: Seen = valid.contains(code) ? .close(UInt16(code)) : .failed(.closeCode)
            #expect(read(frame(8, [UInt8(code >> 8), UInt8(code & 0xFF)])) == [expected])
        }
    }

    @Test func limitsAtTheBoundAndOnePast() {
        var limits = MessageLimits()
        limits.messageBytes = 10
        limits.fragments = 3
        let ten = "0123456789"
        #expect(read(frame(1, ten), limits: limits) == [.text(ten)])
        #expect(read(frame(1, ten + "x"), limits: limits) == [.failed(.messageTooBig)])
        #expect(read(frame(1, "01234", fin: false) + frame(0, "56789"), limits: limits) == [.text(ten)])
        #expect(read(frame(1, "01234", fin: false) + frame(0, "567890"), limits: limits) == [.failed(.messageTooBig)])
        let three = frame(1, "a", fin: false) + frame(0, "b", fin: false)
        #expect(read(three + frame(0, "c") + three + frame(0, "c"), limits: limits) == [.text("abc"), .text("abc")])
        #expect(read(three + frame(0, "c", fin: false) + frame(0, "d"), limits: limits) == [.failed(.tooManyFragments)])
        #expect(WebSocketError.messageTooBig.closeCode == .messageTooBig)
        #expect(WebSocketError.invalidUTF8.closeCode == .invalidPayload)
        #expect(WebSocketError.notMasked.closeCode == .protocolError)
    }

    @Test func leavesOnlyHeadersUnread() {
        let bytes =
            frame(1, String(repeating: "x", count: 300), fin: false) + frame(9, "ping") + frame(0, "end")
            + frame(1, "next")
        for split in 0...bytes.count {
            _ = read(bytes, splits: [split]) { pending, held in
                #expect(pending < 14)
                #expect(held <= 310)
            }
        }
        var held = -1
        _ = read(bytes) { held = $1 }
        #expect(held == 0)
    }

    @Test func wholeFramesStayWhereTheyAre() throws {
        try withMutableBytes(frame(1, "in index") + frame(9, "too")) { buffer throws(WebSocketError) in
            var reader = MessageReader(role: .server)
            var consumed = 0
            guard case .text(.inPlace(6..<14)) = try reader.read(buffer, consumed: &consumed, limits: MessageLimits()),
                case .ping(.inPlace(20..<23)) = try reader.read(buffer, consumed: &consumed, limits: MessageLimits())
            else {
                Issue.record("copied")
                return
            }
            #expect(consumed == buffer.count)
            #expect(!reader.holdsMessage)
        }
    }

    /// Whole texts are taken; everything else stays unchanged. (The properties compare this with `read`.)
    @Test func takesWholeTextsWithoutAReader() throws {
        var limits = MessageLimits()
        limits.messageBytes = 300
        let take = { (bytes: [UInt8], start: Int) throws(WebSocketError) -> [UInt8]? in
            try withMutableBytes(bytes) { buffer throws(WebSocketError) -> [UInt8]? in
                var consumed = start
                let range = try MessageReader.takeText(buffer, consumed: &consumed, limits: limits)
                #expect(consumed == range?.upperBound ?? start)
                #expect(range != nil || [UInt8](buffer) == bytes)
                return range.map { range in Array(buffer[range]) }
            }
        }
        let text = Array("é€𝄞 and more than a word".utf8)
        let long = [UInt8](repeating: 0x61, count: 300)
        #expect(try take(frame(1, text), 0) == text)
        #expect(try take(frame(9, "ping") + frame(1, text) + frame(1, "next"), 10) == text)
        #expect(try take(frame(1, ""), 0) == [])
        #expect(try take(frame(1, long), 0) == long)
        let left: [[UInt8]] = [
            [], Array(frame(1, text).dropLast()), frame(1, long + [0x61]), frame(1, text, fin: false), frame(0, text),
            frame(2, text), frame(9, "ping"), frame(8, []), frame(1, text, rsv: 4), [0x81, 0xFE, 0x01],
        ]
        for bytes in left { #expect(try take(bytes, 0) == nil) }
        #expect(throws: WebSocketError.invalidUTF8) { try take(frame(1, [0x61, 0xC3]), 0) }
        #expect(throws: WebSocketError.notMasked) { try take(frame(1, [1], mask: nil), 0) }
        limits.fragments = 0
        #expect(try take(frame(1, "a"), 0) == nil)
    }

    @Test func masksAsTheByteLoopDoes() {
        var random = SeededRandom()
        for count in 0..<70 {
            let plain = random.bytes(count)
            let key = random.bytes(4)
            let mask = key.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
            let expected = plain.enumerated().map { $1 ^ key[$0 % 4] }
            for split in 0...count {
                let masked = withMutableBytes(plain) { buffer in
                    let turned = Masking.apply(mask, to: UnsafeMutableRawBufferPointer(rebasing: buffer[..<split]))
                    _ = Masking.apply(turned, to: UnsafeMutableRawBufferPointer(rebasing: buffer[split...]))
                    return [UInt8](buffer)
                }
                #expect(masked == expected, "seed \(random.seed)")
            }
            // Every byte counts, at any index.
            for index in -1..<count {
                let masked = (0..<count).map { ($0 == index ? 0x80 : 0x7F) ^ key[$0 % 4] }
                let isASCII = withMutableBytes(masked) { Masking.makesASCII(applying: mask, to: $0) }
                #expect(isASCII == (index < 0), "seed \(random.seed)")
            }
        }
    }

    /// Mutated streams: the same messages and failure however they are split, and never a trap.
    @Test func survivesMutation() throws {
        let corpus = try Corpus.load("websocket").map(\.bytes)
        for seed in 0..<4000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = corpus[Int(seed) % corpus.count]
            let bytes = Mutation.apply(to: base, other: corpus.randomElement(using: &random) ?? [], using: &random)
            let splits = (0..<3).map { _ in Int.random(in: 0...bytes.count, using: &random) }.sorted()
            let whole = read(bytes)
            let pieces = read(bytes, splits: splits)
            // A failure inside an incomplete frame is reported earlier in pieces; the events before it are equal.
            #expect(whole == pieces, "seed \(seed), splits \(splits)")
        }
    }
}
