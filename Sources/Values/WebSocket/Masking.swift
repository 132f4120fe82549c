/// The masking of RFC 6455 §5.3, eight bytes a step.
package enum Masking {
    /// Applies `mask` (bytes in memory order) to `bytes` in place. Returns it rotated for the byte that follows.
    package static func apply(_ mask: UInt32, to bytes: UnsafeMutableRawBufferPointer) -> UInt32 {
        var seen: UInt64 = 0
        return apply(mask, to: bytes, seen: &seen)
    }

    /// Applies `mask` in place and returns whether the result is ASCII. Most text is, and then needs no UTF-8 validation.
    package static func makesASCII(applying mask: UInt32, to bytes: UnsafeMutableRawBufferPointer) -> Bool {
        var seen: UInt64 = 0
        _ = apply(mask, to: bytes, seen: &seen)
        return seen & 0x8080_8080_8080_8080 == 0
    }

    /// - Parameter seen: collects the bits of all output bytes.
    @inline(__always) private static func apply(
        _ mask: UInt32, to bytes: UnsafeMutableRawBufferPointer, seen: inout UInt64
    ) -> UInt32 {
        let mask = UInt32(littleEndian: mask)
        guard let base = bytes.baseAddress else { return mask.littleEndian }
        let count = bytes.count
        let wide = (UInt64(mask) << 32 | UInt64(mask)).littleEndian
        var at = 0
        while at &+ 8 <= count {
            let word = base.loadUnaligned(fromByteOffset: at, as: UInt64.self) ^ wide
            base.storeBytes(of: word, toByteOffset: at, as: UInt64.self)
            seen |= word
            at &+= 8
        }
        if at < count, count >= 8 {
            // The last word again, masking only the bytes not done yet.
            let undone = (UInt64(littleEndian: wide) << UInt64((at &+ 8 &- count) &* 8)).littleEndian
            let word = base.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self) ^ undone
            base.storeBytes(of: word, toByteOffset: count &- 8, as: UInt64.self)
            seen |= word
            let turn = UInt32(count & 3) &* 8
            return (mask >> turn | mask << (32 &- turn)).littleEndian
        }
        var rest = mask
        while at < count {
            bytes[at] ^= UInt8(truncatingIfNeeded: rest)
            seen |= UInt64(bytes[at])
            rest = rest >> 8 | rest << 24
            at &+= 1
        }
        return rest.littleEndian
    }
}
