import Bytes
import TestSupport
import Testing
import WebSocket

/// Compressed messages padded with empty blocks: these cost time but no byte of the limit.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PaddedMessageTests {
    enum Padding: CaseIterable {
        case stored, fixed, final, dynamic, tables

        func append(to blocks: inout DeflateBlocks) {
            switch self {
            case .stored: blocks.stored()
            case .fixed: blocks.fixed()
            case .final: blocks.fixed(isFinal: true)
            case .dynamic: blocks.dynamic()
            case .tables: blocks.tables()
            }
        }

        /// `count` empty blocks after the plain bytes.
        func payload(_ count: Int, behind plain: [UInt8] = []) -> [UInt8] {
            var blocks = DeflateBlocks()
            if !plain.isEmpty { blocks.stored(plain) }
            for _ in 0..<count { append(to: &blocks) }
            return blocks.message
        }
    }

    private static func compressed(_ payload: [UInt8], fin: Bool = true) -> [UInt8] {
        frame(2, payload, fin: fin, rsv: 4)
    }

    private func letters(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(ascii: "a") + UInt8($0 % 26) } }

    /// Each kind is readable: otherwise a refusal could have another reason.
    @Test(arguments: Padding.allCases) func blocksOfNothingAreNothing(_ padding: Padding) {
        for count in [1, 2, 3, 8, 16] {
            let bytes = Self.compressed(padding.payload(count, behind: letters(100)))
            #expect(read(bytes, inflater: Inflater()) == [.binary(letters(100))], "\(count)")
        }
    }

    /// An eighth of the plain length, and 1 KiB.
    @Test(arguments: [0, 7, 8, 800, 60_000], [Padding.stored, .fixed, .final])
    func paddingAtTheBoundAndOnePast(_ plain: Int, _ padding: Padding) throws {
        let letters = letters(plain)
        let bound = plain + plain / 8 + 1_024
        let room = 8 * (bound - (plain > 0 ? plain + 5 : 0)) - 3
        let count = room / (padding == .stored ? 40 : padding == .fixed ? 10 : 16)
        let (last, onePast) = (
            padding.payload(count, behind: letters), padding.payload(count + 1, behind: letters)
        )
        #expect(last.count <= bound && onePast.count > bound)
        #expect(read(Self.compressed(last), inflater: Inflater()) == [.binary(letters)])
        let inflater = Inflater()
        #expect(read(Self.compressed(onePast), inflater: inflater) == [.failed(.messagePadded)])
        #expect(inflater.tally.padded == 1 && inflater.tally.messages == 0)
    }

    /// Sixteen, and one for each 64 bytes.
    @Test(arguments: [Padding.dynamic, .tables], [0, 63, 64, 640])
    func tablesAtTheBoundAndOnePast(_ padding: Padding, _ plain: Int) {
        let letters = letters(plain)
        let count = 16 + plain / 64
        #expect(
            read(Self.compressed(padding.payload(count, behind: letters)), inflater: Inflater()) == [.binary(letters)])
        #expect(
            read(Self.compressed(padding.payload(count + 1, behind: letters)), inflater: Inflater())
                == [.failed(.messagePadded)])
    }

    /// Not only at the end: bytes after the padding are never read, however the message is split.
    @Test(arguments: Padding.allCases) func itIsFoundOutOnTheWay(_ padding: Padding) {
        var blocks = DeflateBlocks()
        while blocks.count < 3_000 { padding.append(to: &blocks) }
        let payload = blocks.message + [0xFF, 0xFF, 0xFF, 0xFF]
        #expect(read(Self.compressed([0xFF, 0xFF]), inflater: Inflater()) == [.failed(.malformedDeflate)])
        let inflater = Inflater()
        #expect(read(Self.compressed(payload), inflater: inflater) == [.failed(.messagePadded)])
        // Tiny fragments, with a ping between any two.
        var frames = Self.compressed([], fin: false)
        for start in stride(from: 0, to: payload.count, by: 5) {
            let end = min(start + 5, payload.count)
            frames += frame(9, "") + frame(0, Array(payload[start..<end]), fin: end == payload.count)
        }
        let seen = read(frames, splits: Array(stride(from: 0, to: frames.count, by: 7)), inflater: inflater)
        #expect(seen.last == .failed(.messagePadded))
        #expect(seen.dropLast().allSatisfy { $0 == .ping("") } && seen.count == (payload.count + 4) / 5 + 1)
        #expect(inflater.tally.padded == 2)
    }

    /// A refusal does not depend on the room that an earlier message left.
    @Test func itDependsOnNothingThatCameBefore() {
        var random = SeededRandom()
        let used = Inflater()
        for _ in 0..<300 {
            var blocks = DeflateBlocks()
            for _ in 0..<Int.random(in: 1...60, using: &random) {
                let plain = letters(Int.random(in: 0...300, using: &random))
                switch Int.random(in: 0..<6, using: &random) {
                case 0: blocks.stored(plain)
                case 1: blocks.fixed(plain)
                case 2: blocks.tables(plain)
                case 3: for _ in 0..<100 { blocks.fixed() }
                case 4: for _ in 0..<100 { blocks.stored() }
                default: blocks.dynamic()
                }
            }
            let bytes = Self.compressed(blocks.message)
            #expect(read(bytes, inflater: used) == read(bytes, inflater: Inflater()), "seed \(random.seed)")
        }
    }

    // MARK: Honest senders

    @Test func shortMessagesPass() {
        for count in 0...10 {
            let letters = letters(count)
            var stored = DeflateBlocks()
            stored.stored(letters)
            var fixed = DeflateBlocks()
            fixed.fixed(letters)
            for payload in [stored.message, fixed.message] {
                #expect(read(Self.compressed(payload), inflater: Inflater()) == [.binary(letters)])
            }
        }
    }

    /// Fixed codes need nine bits for half of all byte values; up to the limit, and in many blocks.
    @Test(arguments: [(65_536, 1), (100, 300), (10, 100)])
    func whatFixedCodesMakeLongerPasses(_ blockBytes: Int, _ count: Int) {
        let plain = [UInt8](repeating: 0xC3, count: count * blockBytes)
        var blocks = DeflateBlocks()
        for _ in 0..<count { blocks.fixed(Array(plain[..<blockBytes])) }
        #expect(blocks.message.count > plain.count / 8 * 9)
        #expect(read(Self.compressed(blocks.message), inflater: Inflater()) == [.binary(plain)])
    }

    // MARK: Cost

    @Test func theLargerCountsAndTablesCountMore() throws {
        func cost(_ payload: [UInt8]) throws -> Int {
            let inflater = Inflater()
            _ = try payload.withUnsafeBytes { try inflater.inflate($0, limit: 65_536) }
            return inflater.cost
        }
        let bomb = try #require(deflated([UInt8](repeating: 0x61, count: 60_000)))
        // One block, and the empty one whose end senders leave off, if its start needs a byte of its own.
        let rest = try cost(bomb) - 60_000 - Inflater.tableCost
        #expect([1, 2].map { $0 * Inflater.blockCost }.contains(rest), "plain is more")
        let stored = Padding.stored.payload(200, behind: letters(10))
        #expect(try cost(stored) == stored.count + 202 * Inflater.blockCost, "compressed is more")
        let tables = Padding.dynamic.payload(16, behind: letters(2_000))
        #expect(try cost(tables) == tables.count + 18 * Inflater.blockCost + 16 * Inflater.tableCost)
        #expect(try cost([]) == 0)
    }
}
