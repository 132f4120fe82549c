#if canImport(Glibc)
import Glibc
#endif

/// A hash of few bytes for tables in memory, keyed with numbers drawn when the process starts, so that nobody outside can
/// choose names that collide. Folded multiplication, as in wyhash: a tenth of the standard library's SipHash for a name.
/// Not the same in another process, and no digest.
public enum KeyedHash {
    @usableFromInline static let keys: (UInt64, UInt64) = {
        var random = SystemRandomNumberGenerator()
        return (random.next() | 1, random.next() | 1)
    }()

    /// The hash of `bytes`; `seed` chains several pieces.
    @inlinable public static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        let (first, second) = keys
        var state = first ^ seed
        guard let base = bytes.baseAddress else { return fold(state, second) }
        let count = bytes.count
        var at = 0
        while count &- at > 16 {
            state = fold(word(base + at) ^ second, word(base + at + 8) ^ state)
            at &+= 16
        }
        let rest = count &- at
        var low: UInt64 = 0
        var high: UInt64 = 0
        if rest >= 8 {
            // The two words overlap where fewer than 16 are left.
            low = word(base + at)
            high = word(base + count - 8)
        } else if rest >= 4 {
            low = UInt64((base + at).loadUnaligned(as: UInt32.self))
            high = UInt64((base + count - 4).loadUnaligned(as: UInt32.self))
        } else {
            while at < count {
                low = low << 8 | UInt64(base.load(fromByteOffset: at, as: UInt8.self))
                at &+= 1
            }
        }
        return fold(fold(low ^ second, high ^ state), second ^ UInt64(truncatingIfNeeded: count))
    }

    /// A hash under another seed: one and the same name lies elsewhere in each table.
    @inlinable public static func mix(_ hash: UInt64, _ seed: UInt64) -> UInt64 {
        fold(hash ^ seed, 0x9E37_79B9_7F4A_7C15)
    }

    @inlinable @inline(__always) static func word(_ pointer: UnsafeRawPointer) -> UInt64 {
        pointer.loadUnaligned(as: UInt64.self)
    }

    @inlinable @inline(__always) static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let (high, low) = left.multipliedFullWidth(by: right)
        return high ^ low
    }
}
