#if canImport(Glibc)
import Glibc
#endif

/// A hash of short byte strings for tables in memory. It is keyed with random numbers drawn at process start, so outsiders
/// cannot choose names that collide. Folded multiplication, as in wyhash: for a name, a tenth of the cost of the standard
/// library's SipHash. It differs between processes, and is no cryptographic digest.
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
            // The two words overlap when fewer than 16 bytes are left.
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

    /// A hash under another seed: a name then has a different slot in each table.
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
