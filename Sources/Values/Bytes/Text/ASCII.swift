#if canImport(Glibc)
import Glibc
#endif

/// Comparisons and classes of ASCII bytes, and slices of raw memory, without `String`.
extension UInt8 {
    /// The lower-case letter of an ASCII letter; every other byte unchanged.
    @inlinable public var asciiLowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }

    /// True for `0`…`9`.
    @inlinable public var isASCIIDigit: Bool { self &- 0x30 < 10 }

    /// True for ASCII letters.
    @inlinable public var isASCIILetter: Bool { (self | 0x20) &- 0x61 < 26 }

    /// The value of a hexadecimal digit of either case, or nil.
    @inlinable public var hexValue: UInt8? {
        if isASCIIDigit { return self &- 0x30 }
        let letter = (self | 0x20) &- 0x61
        return letter < 6 && isASCIILetter ? letter &+ 10 : nil
    }
}

extension UnsafeRawBufferPointer {
    /// The bytes of `range`, rebased. `range` must lie inside; callers ensure it, as it never comes from a peer.
    @inlinable @inline(__always) public func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "part outside the bytes")
        guard let base = baseAddress else { return self }
        return UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.upperBound &- range.lowerBound)
    }

    /// True when these bytes are exactly those of `literal`.
    @inlinable @inline(__always) public func equals(_ literal: StaticString) -> Bool {
        guard count == literal.utf8CodeUnitCount else { return false }
        guard let start = baseAddress, count > 0 else { return true }
        return memcmp(start, literal.utf8Start, count) == 0
    }

    /// True when these bytes are exactly those of `other`.
    @inlinable public func equals(_ other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        guard let start = baseAddress, let otherStart = other.baseAddress, count > 0 else { return true }
        return memcmp(start, otherStart, count) == 0
    }

    /// True when these bytes begin with those of `literal`.
    @inlinable public func hasPrefix(_ literal: StaticString) -> Bool {
        let length = literal.utf8CodeUnitCount
        guard count >= length else { return false }
        guard let start = baseAddress, length > 0 else { return true }
        return memcmp(start, literal.utf8Start, length) == 0
    }

    /// True when these bytes equal `lowercase`, ignoring ASCII case.
    ///
    /// `lowercase` has only lower-case letters, digits and hyphens, like protocol names and tokens.
    @inlinable public func equalsIgnoringCase(_ lowercase: StaticString) -> Bool {
        guard count == lowercase.utf8CodeUnitCount else { return false }
        if count >= 8 { return equalsIgnoringCase(lowercase, by: UInt64.self) }
        return count >= 4 ? equalsIgnoringCase(lowercase, by: UInt32.self) : equalsIgnoringCaseBytewise(lowercase)
    }

    /// True when these bytes equal `lowercase`, ignoring ASCII case; compares a `Word` at a time.
    ///
    /// Both must have the same length, at least that of `Word`. The last word overlaps the one before.
    @inlinable @inline(__always) func equalsIgnoringCase<Word: FixedWidthInteger & UnsignedInteger & BitwiseCopyable>(
        _ lowercase: StaticString, by _: Word.Type
    ) -> Bool {
        guard let base = baseAddress else { return false }
        let other = UnsafeRawPointer(lowercase.utf8Start)
        let size = MemoryLayout<Word>.size
        let bit = Word.max / 0xFF &* 0x20
        var at = 0
        while true {
            let word = base.loadUnaligned(fromByteOffset: at, as: Word.self)
            // The bit that lowers letters is already set in digits and hyphens, so real differences remain.
            guard word | bit == other.loadUnaligned(fromByteOffset: at, as: Word.self) else { return false }
            // The bit also turns control bytes into digits and hyphens: reject bytes with neither this bit nor the next.
            guard (word &<< 1 | word) & (bit &<< 1) == bit &<< 1 else { return false }
            if at &+ size == count { return true }
            at = Swift.min(at &+ size, count &- size)
        }
    }

    @usableFromInline func equalsIgnoringCaseBytewise(_ lowercase: StaticString) -> Bool {
        let other = lowercase.utf8Start
        for index in 0..<count where self[index].asciiLowercased != other[index] { return false }
        return true
    }

    /// Index of the first `byte` at or after `start`, or nil.
    @inlinable public func firstIndex(of byte: UInt8, from start: Int) -> Int? {
        guard let base = baseAddress, start >= 0, start < count else { return nil }
        guard let found = memchr(base + start, Int32(byte), count - start) else { return nil }
        return UnsafeRawPointer(found) - base
    }

    /// The value of a non-empty run of decimal digits; nil for anything else, or beyond `Int.max`.
    package var decimalValue: Int? {
        guard count > 0 else { return nil }
        var value = 0
        for byte in self {
            guard byte.isASCIIDigit else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(Int(byte &- 0x30))
            guard !overflow, !carry else { return nil }
            value = sum
        }
        return value
    }

    /// The bytes without spaces and tabs at both ends (RFC 9110 §5.6.3, OWS).
    package var trimmingBlanks: UnsafeRawBufferPointer {
        var low = 0
        var high = count
        while low < high, self[low] == 0x20 || self[low] == 0x09 { low &+= 1 }
        while high > low, self[high &- 1] == 0x20 || self[high &- 1] == 0x09 { high &-= 1 }
        return part(low..<high)
    }

    /// The bytes as a string. Invalid UTF-8 is repaired: validate first if that matters.
    @inlinable public var string: String { String(decoding: self, as: UTF8.self) }
}

extension StaticString {
    /// The literal's bytes in static memory, valid for ever.
    @inlinable public var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
    }
}
