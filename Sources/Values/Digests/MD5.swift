import Bytes
import COpenSSL

/// An MD5 digest (RFC 1321), 16 bytes: only for `body_md5` of Pusher's HTTP API, which a signature covers.
package struct MD5: Sendable {
    private var words: (UInt64, UInt64) = (0, 0)

    /// The digest of `bytes`.
    package init(_ bytes: UnsafeRawBufferPointer) {
        Swift.withUnsafeMutableBytes(of: &words) { target in
            carillon_md5(bytes.baseAddress, bytes.count, target.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
    }

    /// The digest in lower-case hexadecimal, 32 characters.
    package var hex: String { Swift.withUnsafeBytes(of: words) { Hex.encode($0) } }

    /// True when `digits` are this digest in hexadecimal of either case. Not in constant time: the digest is not secret.
    package func matches(hex digits: UnsafeRawBufferPointer) -> Bool {
        guard digits.count == 32 else { return false }
        return Swift.withUnsafeBytes(of: words) { digest in
            for index in 0..<16 {
                guard let high = digits[index &* 2].hexValue, let low = digits[index &* 2 &+ 1].hexValue,
                    high << 4 | low == digest[index]
                else { return false }
            }
            return true
        }
    }
}
