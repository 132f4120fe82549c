/// Changes that break well-formed input the way a fuzzer does.
package enum Mutation {
    /// `bytes` with one to four changes: flipped bits, odd bytes, pieces cut, doubled, moved, or taken from `other`.
    package static func apply(
        to bytes: [UInt8], other: [UInt8], using random: inout SeededRandom
    ) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let at = Int.random(in: 0...bytes.count, using: &random)
            let end = Int.random(in: at...bytes.count, using: &random)
            switch Int.random(in: 0..<7, using: &random) {
            case 0 where at < bytes.count: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1 where at < bytes.count: bytes[at] = odd.randomElement(using: &random) ?? 0
            case 2: bytes.insert(odd.randomElement(using: &random) ?? 0, at: at)
            case 3: bytes.removeSubrange(at..<min(end, at + 8))
            case 4: bytes.insert(contentsOf: bytes[at..<min(end, at + 64)], at: at)
            case 5: bytes.removeSubrange(at...)
            default:
                let start = Int.random(in: 0...other.count, using: &random)
                bytes.replaceSubrange(at..<end, with: other[start..<min(other.count, start + 64)])
            }
        }
        return bytes
    }

    private static let odd: [UInt8] = [
        0x00, 0x09, 0x0A, 0x0D, 0x1F, 0x20, 0x22, 0x2C, 0x30, 0x3A, 0x3D, 0x5B, 0x5C, 0x5D, 0x7B, 0x7D, 0x7E, 0x7F,
        0x80,
        0x81, 0x88, 0x89, 0xBF, 0xC0, 0xED, 0xF4, 0xFE, 0xFF,
    ]
}
