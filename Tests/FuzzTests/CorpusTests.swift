import FuzzProperties
import TestSupport
import Testing

/// What libFuzzer starts from, and what it has found, held against the parsers' properties without it.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CorpusTests {
    /// Examples in all, in bytes: small enough for everybody's checkout.
    private static let corpusBytesMax = 300 << 10

    /// Crashers that were found lie among the examples.
    @Test(arguments: FuzzedParser.allCases) func holdsForEveryExample(of parser: FuzzedParser) throws {
        let examples = try Corpus.load(parser.rawValue)
        #expect(!examples.isEmpty)
        for example in examples { Self.check(parser, example.bytes, "\(parser.rawValue)/\(example.name)") }
    }

    /// A machine without libFuzzer holds the line with the mutations of tests.
    @Test(arguments: FuzzedParser.allCases) func holdsForMutations(of parser: FuzzedParser) throws {
        let examples = try Corpus.load(parser.rawValue).map(\.bytes)
        for seed in 0..<100 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = examples[Int(seed) % examples.count]
            let other = examples.randomElement(using: &random) ?? []
            Self.check(
                parser, Mutation.apply(to: base, other: other, using: &random), "\(parser.rawValue), seed \(seed)")
        }
    }

    @Test func staysSmall() throws {
        var total = 0
        for parser in FuzzedParser.allCases {
            for example in try Corpus.load(parser.rawValue) { total += example.bytes.count }
        }
        #expect(total <= Self.corpusBytesMax)
    }

    private static func check(_ parser: FuzzedParser, _ bytes: [UInt8], _ name: String) {
        do throws(Violation) {
            try parser.check(bytes)
        } catch {
            Issue.record("\(name): \(error.message)")
        }
    }
}
