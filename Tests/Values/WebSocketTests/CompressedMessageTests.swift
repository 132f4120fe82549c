import Bytes
import TestSupport
import Testing
import WebSocket

/// Received compressed messages (RFC 7692 §6.2, §7.2.2).
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CompressedMessageTests {
    /// A compressed message's first frame.
    private static func compressed(_ payload: [UInt8], _ opcode: UInt8 = 1, fin: Bool = true) -> [UInt8] {
        frame(opcode, payload, fin: fin, rsv: 4)
    }

    /// "Hello", compressed with fixed codes.
    private static let hello: [UInt8] = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]

    /// A message of one repeated letter, and its compressed form: one byte for about two hundred.
    private func bomb(_ count: Int) throws -> (plain: [UInt8], payload: [UInt8]) {
        let plain = [UInt8](repeating: 0x61, count: count)
        // Too short to compress: an uncompressed block.
        let low = UInt8(truncatingIfNeeded: count)
        return (plain, count < 10 ? [0, low, 0, ~low, 0xFF] + plain + [0] : try #require(deflated(plain)))
    }

    @Test(
        arguments: [
            // RFC 7692 §7.2.3.1: one block, whole and in two frames.
            (compressed(hello), [.text("Hello")]),
            (compressed([0xF2, 0x48, 0xCD], fin: false) + frame(0, [0xC9, 0xC9, 0x07, 0x00]), [.text("Hello")]),
            // §7.2.3.3: an uncompressed block.
            (compressed([0, 5, 0, 0xFA, 0xFF] + Array("Hello".utf8) + [0]), [.text("Hello")]),
            // §7.2.3.4: a final block, with and without the byte that should follow it.
            (compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]), [.text("Hello")]),
            (compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]), [.text("Hello")]),
            // Blocks after a final one.
            (
                compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00] + hello), [.text("HelloHello")]
            ),
            // §7.2.3.5: two blocks, with the tail of the first left in.
            (compressed([0xF2, 0x48, 0x05, 0, 0, 0, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00]), [.text("Hello")]),
            // §7.2.3.6: the empty message, and one without its byte.
            (compressed([0]), [.text("")]), (compressed([]), [.text("")]),
            (compressed([], fin: false) + frame(0, [], fin: false) + frame(0, [0]), [.text("")]),
            (compressed([0, 3, 0, 0xFC, 0xFF, 0xFF, 0, 0xC3, 0], 2), [.binary([0xFF, 0, 0xC3])]),
            // Control frames and plain messages in between, but no plain message inside another.
            (
                compressed([0xF2, 0x48], fin: false) + frame(9, "mid") + frame(0, [0xCD, 0xC9], fin: false)
                    + frame(10, "") + frame(0, [0xC9, 0x07, 0x00]) + frame(1, "plain") + compressed(hello),
                [.ping("mid"), .pong(""), .text("Hello"), .text("plain"), .text("Hello")]
            ),
            // A character split by blocks; frames do not matter for this.
            (
                compressed([0, 1, 0, 0xFE, 0xFF, 0xC3], fin: false) + frame(0, [0, 1, 0, 0xFE, 0xFF, 0xA9, 0]),
                [.text("é")]
            ),
        ] as [([UInt8], [Seen])]) func readsAtEverySplit(bytes: [UInt8], expected: [Seen])
    {
        let inflater = Inflater()
        #expect(read(bytes, inflater: inflater) == expected)
        for split in 0...bytes.count {
            #expect(read(bytes, splits: [split], inflater: inflater) == expected, "split \(split)")
        }
        #expect(read(bytes, splits: Array(0..<bytes.count), inflater: inflater) == expected)
    }

    @Test(
        arguments: [
            // §7.2.3.2: a reference to the previous message, whose window is not kept.
            (compressed(hello) + compressed([0xF2, 0x00, 0x11, 0x00, 0x00]), .malformedDeflate),
            // After a final block, a reference to data before it.
            (compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0xF2, 0x00, 0x11, 0x00, 0x00]), .malformedDeflate),
            // An invalid block type, a length that is not its complement, invalid codes.
            (compressed([0x06]), .malformedDeflate), (compressed([0xFF, 0xFF]), .malformedDeflate),
            (compressed([0, 5, 0, 0xFA, 0xFE] + Array("Hello".utf8) + [0]), .malformedDeflate),
            (compressed([0x04, 0xFF, 0xFF, 0xFF, 0xFF]), .malformedDeflate),
            // Cut in the middle of a stored block, and of codes.
            (compressed([0, 50, 0, 205, 0xFF, 1, 2]), .malformedDeflate),
            (compressed([0xF2, 0x48, 0xCD]), .malformedDeflate),
            // Valid DEFLATE, but not text.
            (compressed([0, 1, 0, 0xFE, 0xFF, 0xC3, 0]), .invalidUTF8),
            (compressed([0, 1, 0, 0xFE, 0xFF, 0xFF, 0]), .invalidUTF8),
            // RSV1 where it is not allowed (§6.1); RSV2 and RSV3 anywhere.
            (compressed([0xF2, 0x48, 0xCD], fin: false) + frame(0, [0xC9], rsv: 4), .reservedBits),
            (frame(1, "a", fin: false) + frame(0, [0x62], rsv: 4), .reservedBits),
            (frame(9, [], rsv: 4), .reservedBits), (frame(10, [], rsv: 4), .reservedBits),
            (frame(8, [], rsv: 4), .reservedBits), (frame(1, hello, rsv: 6), .reservedBits),
            (frame(1, hello, rsv: 5), .reservedBits), (frame(1, hello, rsv: 2), .reservedBits),
            (compressed(hello, fin: false) + compressed(hello), .expectedContinuation),
        ] as [([UInt8], WebSocketError)]) func failsAtEverySplit(bytes: [UInt8], error: WebSocketError)
    {
        let inflater = Inflater()
        for split in 0...bytes.count {
            #expect(read(bytes, splits: [split], inflater: inflater).last == .failed(error), "split \(split)")
        }
        // Nothing of one message remains for the next.
        #expect(read(Self.compressed(Self.hello), inflater: inflater) == [.text("Hello")])
    }

    @Test func withoutAnAgreementNothingIsCompressed() {
        #expect(read(Self.compressed(Self.hello)) == [.failed(.reservedBits)])
        #expect(WebSocketError.malformedDeflate.closeCode == .invalidPayload)
    }

    @Test(arguments: [1, 2, 100, 4095, 4096, 4097, 65_536, 300_000])
    func bombsAreCutAtTheLimit(_ limit: Int) throws {
        var limits = MessageLimits()
        limits.messageBytes = limit
        let inflater = Inflater()
        let (plain, payload) = try bomb(limit)
        let expected = Seen.text(String(decoding: plain, as: UTF8.self))
        #expect(read(Self.compressed(payload), limits: limits, inflater: inflater) == [expected])
        let (_, onePast) = try bomb(limit + 1)
        #expect(read(Self.compressed(onePast), limits: limits, inflater: inflater) == [.failed(.messageTooBig)])
        let half = onePast.count / 2
        let pieces = Self.compressed(Array(onePast[..<half]), fin: false) + frame(0, Array(onePast[half...]))
        #expect(read(pieces, limits: limits, inflater: inflater) == [.failed(.messageTooBig)])
        #expect(inflater.tally.messages == 1 && inflater.tally.tooBig == 2 && inflater.tally.malformed == 0)
    }

    /// However large the message, at most the limit and one byte are written.
    @Test func aLargeBombCostsTheLimit() throws {
        let (_, payload) = try bomb(64 << 20)
        var limits = MessageLimits()
        limits.messageBytes = 10_000
        #expect(payload.count < 100_000)
        let inflater = Inflater()
        payload.withUnsafeBytes { bytes in
            _ = #expect(throws: WebSocketError.messageTooBig) { _ = try inflater.inflate(bytes, limit: 10_000) }
        }
        #expect(inflater.roomBytes <= 10_001)
        limits.messageBytes = payload.count
        #expect(read(Self.compressed(payload), limits: limits, inflater: inflater) == [.failed(.messageTooBig)])
        #expect(inflater.roomBytes <= payload.count + 1)
    }

    /// The compressed length is bounded, too, before decompression: empty final blocks could go on for ever.
    @Test func compressedBytesAtTheBoundAndOnePast() {
        var limits = MessageLimits()
        limits.messageBytes = 80
        #expect(limits.compressedBytes == 154)
        func empty(_ count: Int) -> [UInt8] { (0..<count / 2).flatMap { _ in [0x03, 0x00] as [UInt8] } }
        let inflater = Inflater()
        #expect(read(Self.compressed(empty(154)), limits: limits, inflater: inflater) == [.text("")])
        let onePast = Self.compressed(empty(154) + [0])
        #expect(read(onePast, limits: limits, inflater: inflater) == [.failed(.messageTooBig)])
        let pieces = Self.compressed(empty(100), fin: false)
        #expect(read(pieces + frame(0, empty(54)), limits: limits, inflater: inflater) == [.text("")])
        #expect(read(pieces + frame(0, empty(56)), limits: limits, inflater: inflater) == [.failed(.messageTooBig)])
        // The limit of plain messages is unchanged.
        let plain = frame(1, String(repeating: "a", count: 81))
        #expect(read(plain, limits: limits, inflater: inflater) == [.failed(.messageTooBig)])
    }

    /// An incompressible message at the limit is accepted, although its compressed form is larger.
    @Test func incompressibleAtTheLimit() {
        var random = SeededRandom()
        let plain = random.bytes(65_535)
        var limits = MessageLimits()
        limits.messageBytes = plain.count
        var payload: [UInt8] = []
        for start in stride(from: 0, to: plain.count, by: 4096) {
            let part = plain[start..<min(start + 4096, plain.count)]
            let (low, high) = (UInt8(truncatingIfNeeded: part.count), UInt8(truncatingIfNeeded: part.count >> 8))
            payload += [0, low, high, ~low, ~high] + part
        }
        #expect(payload.count > limits.messageBytes)
        #expect(
            read(Self.compressed(payload + [0], 2), limits: limits, inflater: Inflater()) == [.binary(plain)],
            "seed \(random.seed)")
    }

    @Test func aLargeMessagesRoomIsGivenBack() throws {
        let inflater = Inflater()
        let (_, payload) = try bomb(1 << 20)
        payload.withUnsafeBytes { bytes in
            _ = #expect(throws: Never.self) { _ = try inflater.inflate(bytes, limit: 1 << 20) }
        }
        #expect(inflater.roomBytes > Inflater.roomKept)
        inflater.trim()
        #expect(inflater.roomBytes == 0)
        #expect(inflater.takeTally().plainBytes == 1 << 20)
        #expect(inflater.tally == Inflater.Tally())
    }

    /// Mutated streams: the same result however they are split; never a trap, never more than the limit.
    @Test func survivesMutation() throws {
        var corpus: [[UInt8]] = [
            Self.compressed(Self.hello) + frame(9, "x"),
            Self.compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]) + Self.compressed(Self.hello),
            Self.compressed([0xF2, 0x48], fin: false) + frame(0, [0xCD, 0xC9, 0xC9, 0x07, 0x00]),
        ]
        var random = SeededRandom(seed: 12)
        for _ in 0..<6 { corpus.append(Self.compressed(deflated(text(500, &random)) ?? [])) }
        var limits = MessageLimits()
        limits.messageBytes = 2000
        let inflater = Inflater()
        for seed in 0..<4000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = corpus[Int(seed) % corpus.count]
            let bytes = Mutation.apply(to: base, other: corpus.randomElement(using: &random) ?? [], using: &random)
            let splits = (0..<3).map { _ in Int.random(in: 0...bytes.count, using: &random) }.sorted()
            let whole = read(bytes, limits: limits, inflater: inflater)
            #expect(whole == read(bytes, splits: splits, limits: limits, inflater: inflater), "seed \(seed), \(splits)")
            #expect(inflater.roomBytes <= 4096)
        }
    }
}
