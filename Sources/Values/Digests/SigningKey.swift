import Bytes
import COpenSSL

/// A private key that signs tokens: ES256 with a key of the curve P-256, RS256 with an RSA key of 2,048 bits or more (RFC
/// 7518 §3.3, §3.4).
///
/// `@unchecked Sendable`: the key is never changed, and OpenSSL counts its references atomically.
package final class SigningKey: @unchecked Sendable {
    /// How it signs, as a token's header names it.
    package enum Algorithm: String, Sendable {
        /// ECDSA with P-256 and SHA-256.
        case es256 = "ES256"
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        case rs256 = "RS256"
    }

    /// How it signs.
    package let algorithm: Algorithm
    private let key: OpaquePointer

    /// Reads a PEM text; nil where it has no such key, or one with a password.
    package init?(pem: String) {
        var pem = pem
        let read = pem.withUTF8 { carillon_private_key($0.baseAddress, Int32(clamping: $0.count)) }
        guard let read else { return nil }
        switch Int(carillon_key_kind(read)) {
        case CARILLON_KEY_P256: algorithm = .es256
        case CARILLON_KEY_RSA: algorithm = .rs256
        default:
            EVP_PKEY_free(read)
            return nil
        }
        key = read
    }

    deinit {
        EVP_PKEY_free(key)
    }

    /// A token (RFC 7519) of a header's and a body's JSON, in its compact form; nil if OpenSSL has no memory left.
    package func token(header: [UInt8], claims: [UInt8]) -> String? {
        let signed = Self.base64URL(header) + "." + Self.base64URL(claims)
        var signature = [UInt8](repeating: 0, count: 1_024)
        let count = Array(signed.utf8).withUnsafeBytes { bytes in
            signature.withUnsafeMutableBufferPointer { room in
                carillon_sign(key, bytes.baseAddress, bytes.count, room.baseAddress, room.count)
            }
        }
        guard count > 0 else { return nil }
        return signed + "." + Self.base64URL(Array(signature.prefix(count)))
    }

    /// Base64 with the alphabet of URLs, without padding (RFC 7515 §2).
    package static func base64URL(_ bytes: [UInt8]) -> String {
        let text = bytes.withUnsafeBytes { Base64.encode($0) }
        var url: [UInt8] = []
        url.reserveCapacity(text.utf8.count)
        for byte in text.utf8 where byte != UInt8(ascii: "=") {
            switch byte {
            case UInt8(ascii: "+"): url.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): url.append(UInt8(ascii: "_"))
            default: url.append(byte)
            }
        }
        return String(decoding: url, as: UTF8.self)
    }
}
