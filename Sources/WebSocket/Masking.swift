/// The masking of RFC 6455 §5.3, eight bytes a step.
package enum Masking {
    /// Applies `mask` (its four bytes in memory order, the first for the first byte) to `bytes` in place, and returns
    /// the mask turned so that it fits the byte behind them.
    package static func apply(_ mask: UInt32, to bytes: UnsafeMutableRawBufferPointer) -> UInt32 {
        let mask = UInt32(littleEndian: mask)
        guard let base = bytes.baseAddress else { return mask.littleEndian }
        let count = bytes.count
        let wide = (UInt64(mask) << 32 | UInt64(mask)).littleEndian
        var at = 0
        while at &+ 8 <= count {
            let word = base.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            base.storeBytes(of: word ^ wide, toByteOffset: at, as: UInt64.self)
            at &+= 8
        }
        var rest = mask
        while at < count {
            bytes[at] ^= UInt8(truncatingIfNeeded: rest)
            rest = rest >> 8 | rest << 24
            at &+= 1
        }
        return rest.littleEndian
    }
}
