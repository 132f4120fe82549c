import COpenSSL

/// Why a handshake or a session failed, as few kinds for counting.
package enum TLSFailure: String, CaseIterable, Sendable {
    /// The peer speaks HTTP without TLS.
    case plainHTTP = "plain_http"
    /// The first byte is not TLS.
    case notTLS = "not_tls"
    /// No version, cipher or group in common: SSL 3 to TLS 1.1, or weak suites.
    case noneInCommon = "none_in_common"
    /// ALPN: the client offers only other protocols.
    case noProtocol = "no_protocol"
    /// The client refused, most often because of the certificate.
    case refusedByClient = "refused_by_client"
    /// A hello whose stated length exceeds the limit.
    case longHello = "long_hello"
    /// A message that TLS does not allow, or that was changed on its way.
    case malformed
    /// It did not complete in time.
    case timeout
    /// The connection ended before it was complete.
    case closed
    /// The hub's handshakes in progress and waiting are at their bounds, or this one held up others for too long.
    case shed

    /// By the first byte of a client: nil for a handshake record.
    init?(firstByte: UInt8) {
        switch firstByte {
        case 0x16: return nil
        // The first letter of every HTTP method, and of HTTP/2's PRI.
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): self = .plainHTTP
        default: self = .notTLS
        }
    }

    /// By the first byte of a server: nil for a handshake record or an alert.
    init?(firstByteOfServer: UInt8) {
        if firstByteOfServer == 0x15 { return nil }
        self.init(firstByte: firstByteOfServer)
    }

    /// From the newest code in OpenSSL's queue.
    init(openSSL code: UInt) {
        guard carillon_error_library(code) == ERR_LIB_SSL else {
            self = .malformed
            return
        }
        switch carillon_error_reason(code) {
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_NO_SHARED_CIPHER, SSL_R_VERSION_TOO_LOW, SSL_R_WRONG_VERSION_NUMBER,
            SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SHARED_GROUPS, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
            SSL_R_NO_PROTOCOLS_AVAILABLE, SSL_R_INAPPROPRIATE_FALLBACK, SSL_R_UNKNOWN_PROTOCOL:
            self = .noneInCommon
        case SSL_R_NO_APPLICATION_PROTOCOL: self = .noProtocol
        // The peer's alerts have numbers of their own, from SSL_AD_REASON_OFFSET on.
        case 1000...1255: self = .refusedByClient
        default: self = .malformed
        }
    }
}
