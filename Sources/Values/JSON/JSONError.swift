// JSON: a bounded, validating reader over bytes, and the escapes for writing (RFC 8259).
//
// Purpose: parse a peer's text without building a tree. Every byte returned belongs to a fully validated value: escapes,
// surrogate pairs, numbers and UTF-8, also in skipped values. Invariants: no recursion, so each level of nesting costs one
// bit; returned pointers are valid as long as the given bytes. Depends on Bytes.

/// Why a text is not acceptable JSON, and where.
package struct JSONError: Error, Equatable, Sendable {
    /// The kinds of failure.
    package enum Kind: Sendable {
        case unexpectedEnd
        case unexpectedByte
        case tooDeep
        case invalidEscape
        case loneSurrogate
        case invalidUTF8
        case controlByte
        /// A number that RFC 8259 §6 does not allow.
        case invalidNumber
        case trailingBytes
        /// A value of another kind than the reader needs.
        case wrongKind
        /// A repeated member that the reader knows.
        case duplicateKey

        /// A description for people.
        package var words: StaticString {
            switch self {
            case .unexpectedEnd: "the text ends inside a value"
            case .unexpectedByte: "a character that does not belong there"
            case .tooDeep: "values nested too deeply"
            case .invalidEscape: "an unknown escape after a backslash"
            case .loneSurrogate: "half of a surrogate pair (\\u…)"
            case .invalidUTF8: "bytes that are no UTF-8"
            case .controlByte: "a control character inside a string"
            case .invalidNumber: "a number that JSON does not allow"
            case .trailingBytes: "something behind the end of the value"
            case .wrongKind: "a value of another kind"
            case .duplicateKey: "a member for the second time"
            }
        }
    }

    /// What is wrong.
    package let kind: Kind
    /// Byte offset in the text.
    package let offset: Int

    /// An error of `kind` at `offset`.
    package init(_ kind: Kind, at offset: Int) {
        self.kind = kind
        self.offset = offset
    }
}

/// Limits of nesting.
package enum JSONLimits {
    /// The default limit of nesting.
    package static let defaultDepth = 32
    /// The highest possible limit: one bit of a word for each level.
    package static let maximumDepth = 64
}
