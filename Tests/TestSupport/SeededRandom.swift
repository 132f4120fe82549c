// TestSupport: helpers shared by several targets' tests. No product imports it.

/// SplitMix64: the same numbers for the same seed, on every machine.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    /// The seed, printed when a test fails: set `CARILLON_SEED` to it to run the same test again.
    package let seed: UInt64
    private var state: UInt64

    /// The sequence of `seed`.
    package init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    /// A new sequence for each run, or the one of `CARILLON_SEED`.
    package init() {
        self.init(seed: Environment.number("CARILLON_SEED") ?? UInt64.random(in: 0...UInt64.max))
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    /// `count` random bytes.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) }
    }

    /// Text of up to `count` characters from all of Unicode, with dots and odd characters more often than by chance.
    package mutating func text(upTo count: Int) -> String {
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...count, using: &self) {
            switch Int.random(in: 0..<4, using: &self) {
            case 0: text.append(Array("..=@,;:-_ /\\\"\u{0}\u{7F}é".unicodeScalars).randomElement(using: &self) ?? ".")
            case 1: text.append(Unicode.Scalar(UInt8.random(in: 0x20...0x7E, using: &self)))
            default:
                if let scalar = Unicode.Scalar(UInt32.random(in: 0...0x10FFFF, using: &self)) { text.append(scalar) }
            }
        }
        return String(text)
    }
}
