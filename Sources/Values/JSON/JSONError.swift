// JSON: a bounded, validating reader over bytes and the escapes of a writer (RFC 8259).
//
// Purpose: take a peer's text apart without building a tree. Every byte handed out is part of a fully validated value:
// escapes, surrogate pairs, numbers and UTF-8 included, also where the value is skipped. Invariants: no recursion, so
// depth costs nothing but one bit a level; pointers handed out live as long as the bytes given. Depends on Bytes.

/// Why a text is not acceptable JSON, and where.
package struct JSONError: Error, Equatable, Sendable {
    /// The kinds of failure.
    package enum Kind: Sendable {
        /// The text ends inside a value.
        case unexpectedEnd
        /// A byte that the grammar does not allow there.
        case unexpectedByte
        /// More nesting than the limit.
        case tooDeep
        /// A backslash with an unknown escape, or bad hexadecimal digits.
        case invalidEscape
        /// Half of a surrogate pair.
        case loneSurrogate
        /// Ill-formed UTF-8.
        case invalidUTF8
        /// A control byte inside a string.
        case controlByte
        /// A number that RFC 8259 §6 does not allow.
        case invalidNumber
        /// Bytes after the value.
        case trailingBytes
        /// Another kind of value than the reader needs.
        case wrongKind
        /// A member that the reader knows, given twice.
        case duplicateKey

        /// For people: what is there.
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
    /// Offset in bytes in the text that was read.
    package let offset: Int

    /// An error of `kind` at `offset`.
    package init(_ kind: Kind, at offset: Int) {
        self.kind = kind
        self.offset = offset
    }
}

/// The bounds of this target.
package enum JSONLimits {
    /// Levels of nesting that a reader accepts when it is not told otherwise.
    package static let defaultDepth = 32
    /// Levels of nesting that a reader can accept at all: one bit of a word each.
    package static let maximumDepth = 64
}
