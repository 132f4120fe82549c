import Bytes
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct PlainNameTests {
    private func isPlain(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "-._".utf8.contains(byte)
    }

    /// Every byte at every index of names around a word's length.
    @Test func findsTheFirstOther() {
        for count in 0...20 {
            for index in 0..<count {
                for byte in UInt8.min...UInt8.max {
                    var name = [UInt8](repeating: UInt8(ascii: "x"), count: count)
                    name[index] = byte
                    let end = name.withUnsafeBytes { $0.endOfPlainName(from: 0) }
                    #expect(end == (isPlain(byte) ? count : index), "\(byte) at \(index) of \(count)")
                }
            }
        }
    }

    @Test func asksAboutOthersOnly() {
        var random = SeededRandom()
        for _ in 0..<5_000 {
            let count = Int.random(in: 0...40, using: &random)
            let name = (0..<count).map { _ in
                Int.random(in: 0..<8, using: &random) > 0
                    ? UInt8(ascii: "a") + .random(in: 0..<26, using: &random) : .random(in: 0...255, using: &random)
            }
            for start in 0...count {
                let expected = (start..<count).first { !isPlain(name[$0]) } ?? count
                #expect(name.withUnsafeBytes { $0.endOfPlainName(from: start) } == expected, "seed \(random.seed)")
            }
            var asked: [UInt8] = []
            let isName = name.withUnsafeBytes { bytes in
                bytes.isName {
                    asked.append($0)
                    return $0 != 0x20
                }
            }
            let others = name.filter { !isPlain($0) }
            #expect(isName == !others.contains(0x20), "seed \(random.seed)")
            #expect(others.starts(with: asked), "seed \(random.seed)")
        }
    }
}
