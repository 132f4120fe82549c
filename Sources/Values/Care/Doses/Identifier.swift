import Bytes

// Care: doses, the actions on them, days, streaks and statistics.
//
// Purpose: the rules of medication adherence as pure values: no I/O, no clock, no zone data. `DoseRules`, `DayCounts`,
// `StreakRun` and `DoseAction` are independent. `CareModel` combines them as the reference for the SQL functions, which are
// the authority; a differential test compares both. Depends on Bytes, JSON and Sync (stream names).

/// The id of a user, dose, action or device. Compared and sorted by bytes, as in PostgreSQL under collation "C". (Swift's
/// own `==` treats two encodings of "é" as equal.)
package struct Identifier: Hashable, Comparable, Sendable, ExpressibleByStringLiteral {
    /// Longest id in bytes.
    package static let bytesMax = 200

    /// The id.
    package let text: String

    /// The id `text`.
    package init(_ text: String) {
        self.text = text
    }

    /// The id of a literal.
    package init(stringLiteral text: String) {
        self.text = text
    }

    /// Compares bytes.
    package static func == (left: Identifier, right: Identifier) -> Bool { left.text.hasSameBytes(as: right.text) }

    /// Compares bytes.
    package static func < (left: Identifier, right: Identifier) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }

    /// Hashes bytes.
    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
