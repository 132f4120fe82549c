/// Validates UTF-8 in pieces, and fails at the first byte that cannot be valid (RFC 3629 §4).
///
/// Three bytes of state: the number of missing continuation bytes, and the bounds of the next one. The bounds exclude
/// overlong forms, surrogates and everything above U+10FFFF.
package struct UTF8Validator: Sendable, Equatable {
    private var missing: UInt8 = 0
    private var lower: UInt8 = 0x80
    private var upper: UInt8 = 0xBF

    /// Starts between characters.
    package init() {}

    /// True when the bytes so far end between characters.
    package var isComplete: Bool { missing == 0 }

    /// Takes the next bytes. Returns false as soon as nothing could make them valid; do not call it again after that.
    package mutating func accept(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let base = bytes.baseAddress else { return true }
        let count = bytes.count
        var at = 0
        while at < count {
            if missing == 0 {
                while at &+ 8 <= count,
                    base.loadUnaligned(fromByteOffset: at, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
                { at &+= 8 }
                // The last word; its first bytes are checked already.
                if count >= 8, count &- at < 8,
                    base.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
                {
                    return true
                }
                while at < count, bytes[at] < 0x80 { at &+= 1 }
                if at == count { return true }
                guard begin(bytes[at]) else { return false }
            } else {
                guard bytes[at] >= lower, bytes[at] <= upper else { return false }
                missing &-= 1
                lower = 0x80
                upper = 0xBF
            }
            at &+= 1
        }
        return true
    }

    /// True when `bytes` are complete, valid UTF-8.
    package static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var validator = UTF8Validator()
        return validator.accept(bytes) && validator.isComplete
    }

    private mutating func begin(_ lead: UInt8) -> Bool {
        switch lead {
        case 0xC2...0xDF: missing = 1
        case 0xE0:
            missing = 2
            lower = 0xA0
        case 0xE1...0xEC, 0xEE, 0xEF: missing = 2
        case 0xED:
            missing = 2
            upper = 0x9F
        case 0xF0:
            missing = 3
            lower = 0x90
        case 0xF1...0xF3: missing = 3
        case 0xF4:
            missing = 3
            upper = 0x8F
        default: return false
        }
        return true
    }
}
