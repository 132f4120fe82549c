import Bytes

// Care: doses, what may be done with them, days, streaks and statistics.
//
// Purpose: the rules of medication adherence as pure values: no I/O, no clock, no zone data. `DoseRules`, `DayCounts`,
// `StreakRun` and `DoseAction` stand alone; `CareModel` puts them together as the reference for the SQL functions,
// which are the authority: a differential test holds one against the other. Depends on Bytes, JSON and, for the names
// of streams, Sync.

/// The id of a user, dose, action or device: any text, compared and sorted by its bytes as PostgreSQL does under
/// collation "C". (Swift's own `==` would hold two spellings of "é" for one.)
package struct Identifier: Hashable, Comparable, Sendable, ExpressibleByStringLiteral {
    /// Longest id in bytes.
    package static let bytesMax = 200

    /// The id as it is written.
    package let text: String

    /// The id `text`.
    package init(_ text: String) {
        self.text = text
    }

    /// The id of a literal.
    package init(stringLiteral text: String) {
        self.text = text
    }

    /// Byte for byte.
    package static func == (left: Identifier, right: Identifier) -> Bool { left.text.hasSameBytes(as: right.text) }

    /// By bytes.
    package static func < (left: Identifier, right: Identifier) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }

    /// By bytes.
    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
