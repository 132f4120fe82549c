/// Scans for plain name characters, eight bytes at a time. Names are checked against their alphabet several times, and a
/// check of each byte costs ten instructions.
extension UnsafeRawBufferPointer {
    /// The index of the first byte from `start` on that is no ASCII letter, digit, hyphen, dot or underscore; else `count`.
    @inlinable public func endOfPlainName(from start: Int) -> Int {
        guard let base = baseAddress, start >= 0 else { return count }
        var at = start
        while at &+ 8 <= count {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
            let others = PlainName.others(word)
            if others != 0 { return at &+ others.trailingZeroBitCount / 8 }
            at &+= 8
        }
        guard at < count else { return count }
        guard count >= 8 else {
            while at < count, PlainName.others(UInt64(self[at]) | 0x2D2D_2D2D_2D2D_2D00) == 0 { at &+= 1 }
            return at
        }
        // The last word, without the bytes checked before.
        let last = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self))
        let others = PlainName.others(last) >> UInt64((at &+ 8 &- count) &* 8)
        return others == 0 ? count : at &+ others.trailingZeroBitCount / 8
    }

    /// True when every byte is in an alphabet that includes all plain characters. `isAllowed` decides on the others.
    @inlinable @inline(__always) public func isName(_ isAllowed: (UInt8) -> Bool) -> Bool {
        var at = endOfPlainName(from: 0)
        while at < count {
            guard isAllowed(self[at]) else { return false }
            at = endOfPlainName(from: at &+ 1)
        }
        return true
    }
}

/// Tests eight bytes of a name at once for characters that need no further check.
@usableFromInline enum PlainName {
    /// Sets the high bit of each byte that is not a plain character. No sum carries into the next byte.
    @inlinable @inline(__always) static func others(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highBits: UInt64 = 0x8080_8080_8080_8080
        let ascii = word & ~highBits
        let lower = ascii | 0x20 &* ones
        // Each line tests a range: the high bits of its sums differ only inside. No two ranges overlap.
        let letters = (lower &+ 0x1F &* ones) ^ (lower &+ 0x05 &* ones)
        let digits = (ascii &+ 0x50 &* ones) ^ (ascii &+ 0x46 &* ones)
        let hyphenAndDot = (ascii &+ 0x53 &* ones) ^ (ascii &+ 0x51 &* ones)
        let underscore = (ascii &+ 0x21 &* ones) ^ (ascii &+ 0x20 &* ones)
        return (~(letters ^ digits ^ hyphenAndDot ^ underscore) | word) & highBits
    }
}
