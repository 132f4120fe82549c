/// A set of loops, by number.
package struct LoopSet: OptionSet, Sendable {
    /// Bit n stands for loop n.
    package let rawValue: UInt64

    /// The most loops that a hub may have.
    package static let loopsMax = 64

    /// The loops of these bits.
    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// The set of one loop, 0 to 63.
    package init(loop: Int) {
        rawValue = 1 << UInt64(loop)
    }

    /// Whether loop number `loop` is in the set.
    package func contains(loop: Int) -> Bool { contains(LoopSet(loop: loop)) }
}
