import Bytes
import Testing

@Suite struct KeyedHashTests {
    private func hash(_ bytes: [UInt8], seed: UInt64 = 0) -> UInt64 {
        bytes.withUnsafeBytes { KeyedHash.hash($0, seed: seed) }
    }

    @Test func dependsOnEveryByteAndOnTheLength() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
            let whole = hash(bytes)
            #expect(hash(bytes) == whole)
            #expect(hash(bytes + [0]) != whole)
            #expect(hash(bytes, seed: 1) != whole)
            let unheeded = bytes.indices.filter { index in
                var changed = bytes
                changed[index] ^= 1
                return hash(changed) == whole
            }
            #expect(unheeded == [], "of \(count) bytes")
        }
    }

    /// Names that differ in a digit or two, such as users' ids, fill a table evenly.
    @Test func spreadsNames() {
        var slots = [Int](repeating: 0, count: 1_024)
        for number in 0..<8_192 {
            slots[Int(truncatingIfNeeded: hash(Array("user-\(number)".utf8))) & 1_023] += 1
        }
        // Eight on average; forty in one slot has a probability below 10^-12.
        #expect((slots.max() ?? 0) < 40)
        #expect(slots.count { $0 == 0 } < 20)
    }
}
