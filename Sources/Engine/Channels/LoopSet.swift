/// A set of loops, by number.
package struct LoopSet: OptionSet, Sendable {
    package let rawValue: UInt64

    /// The most loops that a hub may have.
    package static let loopsMax = 64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    package init(loop: Int) {
        rawValue = 1 << UInt64(loop)
    }

    package func contains(loop: Int) -> Bool { contains(LoopSet(loop: loop)) }
}
