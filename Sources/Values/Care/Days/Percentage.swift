/// A percentage with one decimal, rounded half up.
package struct Percentage: Hashable, Sendable {
    /// Tenths of a per cent, 0 to 1000.
    package let tenths: Int

    /// `part` of `whole`; nil when `whole` is 0.
    package init?(_ part: Int, of whole: Int) {
        guard whole > 0 else { return nil }
        tenths = (2000 * part + whole) / (2 * whole)
    }

    /// The mean; nil when there are no shares.
    package init?(meanOf shares: [Percentage]) {
        guard !shares.isEmpty else { return nil }
        let sum = shares.reduce(0) { $0 + $1.tenths }
        tenths = (2 * sum + shares.count) / (2 * shares.count)
    }

    /// As PostgreSQL writes a `numeric` with one decimal: `66.7`.
    package var text: String { "\(tenths / 10).\(tenths % 10)" }
}
