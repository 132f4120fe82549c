import Bytes
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct UTF8ValidatorTests {
    @Test(arguments: [
        "", "plain", "é", "€", "𝄞", "\u{0}", "\u{D7FF}\u{E000}\u{FFFF}\u{10000}\u{10FFFF}", "12345678é", "ꀀκόσμε",
    ])
    func acceptsAtEverySplit(text: String) {
        let bytes = Array(text.utf8)
        for first in 0...bytes.count {
            for second in first...bytes.count {
                var validator = UTF8Validator()
                for piece in [bytes[..<first], bytes[first..<second], bytes[second...]] {
                    #expect(withBytes(Array(piece)) { validator.accept($0) })
                }
                #expect(validator.isComplete)
            }
        }
    }

    /// Invalid sequences, and the index of the first byte that cannot be valid.
    @Test(
        arguments: [
            ([0x80], 0), ([0xC0, 0xAF], 0), ([0xC1, 0xBF], 0), ([0xC2, 0x20], 1), ([0xE0, 0x9F, 0xBF], 1),
            ([0xED, 0xA0, 0x80], 1), ([0xF0, 0x8F, 0xBF, 0xBF], 1), ([0xF4, 0x90, 0x80, 0x80], 1), ([0xF5, 0x80], 0),
            ([0xE2, 0x82, 0xC0], 2), ([0xF0, 0x9D, 0x84, 0x41], 3), ([0x41, 0xFF], 1),
        ] as [([UInt8], Int)]) func failsAtTheFirstWrongByte(bytes: [UInt8], at index: Int)
    {
        var validator = UTF8Validator()
        #expect(withBytes(Array(bytes[..<index])) { validator.accept($0) })
        #expect(withBytes([bytes[index]]) { validator.accept($0) } == false)
        #expect(withBytes(bytes) { UTF8Validator.isValid($0) } == false)
    }

    @Test func truncatedSequencesAreIncomplete() {
        for text in ["é", "€", "𝄞"] {
            let bytes = Array(text.utf8)
            for count in 1..<bytes.count {
                var validator = UTF8Validator()
                #expect(withBytes(Array(bytes[..<count])) { validator.accept($0) })
                #expect(!validator.isComplete)
            }
        }
    }

    @Test func agreesWithTheStandardLibrary() {
        var random = SeededRandom()
        for _ in 0..<20_000 {
            var bytes = Array(random.text(upTo: 12).utf8)
            if Bool.random(using: &random), !bytes.isEmpty {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let expected = String(validating: bytes, as: UTF8.self) != nil
            #expect(withBytes(bytes) { UTF8Validator.isValid($0) } == expected, "seed \(random.seed): \(bytes)")
        }
    }
}
