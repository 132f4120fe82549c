import Bytes
import Foundation
import JSON
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct JSONEscapeTests {
    private func escaped(_ text: String) -> String {
        var writer = ByteWriter(capacity: 16)
        writer.append(jsonString: text)
        return writer.string
    }

    @Test func escapesWhatMustBe() {
        #expect(escaped("") == "\"\"")
        #expect(escaped("plain é 𝄞 /") == "\"plain é 𝄞 /\"")
        #expect(escaped("\"\\\u{8}\t\n\u{C}\r\u{0}\u{1F}\u{7F}") == #""\"\\\b\t\n\f\r\u0000\u001f"# + "\u{7F}\"")
    }

    @Test func everyByteAtEveryPlaceOfAStep() throws {
        for byte in UInt8.min..<0x80 {
            for before in 0..<17 {
                let text = String(repeating: "x", count: before) + String(Character(Unicode.Scalar(byte))) + "tail\u{1}"
                try withBytes(escaped(text)) { bytes throws(JSONError) in
                    #expect(try JSONValue.parse(bytes).string == text)
                }
            }
        }
    }

    @Test func doubleEncodingRoundTrips() throws {
        var random = SeededRandom()
        for _ in 0..<2000 {
            let text = random.text(upTo: 40)
            let once = escaped(text)
            let twice = escaped(once)
            try withBytes(twice) { bytes throws(JSONError) in
                let outer = try JSONValue.parse(bytes)
                #expect(outer.string == once, "seed \(random.seed)")
                try withBytes(outer.characters ?? []) { inner throws(JSONError) in
                    #expect(try JSONValue.parse(inner).string == text, "seed \(random.seed)")
                }
            }
        }
    }

    @Test func escapesTwiceAtOnce() {
        var random = SeededRandom()
        for _ in 0..<2000 {
            let text = random.text(upTo: 40)
            var once = ByteWriter(capacity: 16)
            text.utf8.withContiguousStorageIfAvailable { once.append(jsonEscaping: UnsafeRawBufferPointer($0)) }
            var expected = ByteWriter(capacity: 16)
            once.withUnsafeBytes { expected.append(jsonEscaping: $0) }
            var writer = ByteWriter(capacity: 16)
            writer.append(jsonEscapingTwice: text)
            #expect(writer.string == expected.string, "seed \(random.seed)")
        }
        var writer = ByteWriter(capacity: 16)
        writer.append(jsonEscapingTwice: "\"\\\n\u{1}")
        #expect(writer.string == #"\\\"\\\\\\n\\u0001"#)
    }

    /// Texts are escaped in blocks, and what is left in another way: what needs an escape may stand anywhere.
    @Test(arguments: [0x22, 0x5C, 0x0A, 0x1F, 0x00] as [UInt8]) func escapesWhereverItStands(_ byte: UInt8) {
        for count in 1...56 {
            for start in 0..<count {
                for width in 1...2 where start + width <= count {
                    var text = (0..<count).map { UInt8(ascii: "a") + UInt8($0 % 26) }
                    for index in start..<start + width { text[index] = byte }
                    for twice in [false, true] {
                        var writer = ByteWriter(capacity: 1)
                        text.withUnsafeBytes {
                            twice ? writer.append(jsonEscapingTwice: $0) : writer.append(jsonEscaping: $0)
                        }
                        let expected = text.flatMap { Self.escaped($0, twice) }
                        #expect(writer.array == expected, "\(count) bytes, \(width) at \(start)")
                    }
                }
            }
        }
    }

    /// One byte, written by the words of RFC 8259.
    private static func escaped(_ byte: UInt8, _ twice: Bool) -> [UInt8] {
        let once =
            switch byte {
            case UInt8(ascii: "\""): #"\""#
            case UInt8(ascii: "\\"): #"\\"#
            case 0x0A: #"\n"#
            case ..<0x10: "\\u000" + String(byte, radix: 16)
            case ..<0x20: "\\u001" + String(byte - 0x10, radix: 16)
            default: String(UnicodeScalar(byte))
            }
        guard twice else { return Array(once.utf8) }
        return once.utf8.flatMap { escaped($0, false) }
    }

    /// Mutated examples: a value or an error inside the text. JSONSerialization (never stricter) agrees.
    @Test func survivesMutation() throws {
        let corpus = try Corpus.load("json").map(\.bytes)
        for seed in 0..<4000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = corpus[Int(seed) % corpus.count]
            let bytes = Mutation.apply(to: base, other: corpus.randomElement(using: &random) ?? [], using: &random)
            withBytes(bytes) { text in
                do throws(JSONError) {
                    let value = try JSONValue.parse(text)
                    _ = value.string
                    _ = value.integer
                    let accepted = try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
                    #expect(accepted != nil, "seed \(seed)")
                } catch {
                    #expect((0...bytes.count).contains(error.offset), "seed \(seed)")
                }
            }
        }
    }
}
