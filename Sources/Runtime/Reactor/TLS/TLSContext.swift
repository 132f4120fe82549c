import COpenSSL
import Glibc

/// The server's side of TLS, made from the operator's files at one time. Never changed; a newer one replaces it.
///
/// TLS 1.2 and 1.3; forward secrecy and authenticated ciphers only (RFC 9325 §4.2); no renegotiation, no compression, no
/// early data; HTTP/1.1 by ALPN; resumption only by tickets, so that the hub stores no session.
///
/// `@unchecked Sendable`: OpenSSL's contexts count references and lock by themselves, and nothing here changes after `init`.
final class TLSContext: @unchecked Sendable {
    let certificates: [TLSCertificate]
    let tickets: TLSTicketKeys
    /// One for each certificate, in order.
    private let contexts: [OpaquePointer]
    private let exact: [String: Int]
    /// By what follows the star and its dot.
    private let wildcards: [String: Int]

    private static let suites12 = """
        ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:\
        ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384
        """
    private static let suites13 = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"

    /// - Throws: the first file that is missing or wrong.
    init(_ files: [TLSCertificateFiles], tickets: TLSTicketKeys) throws(TLSError) {
        guard !files.isEmpty else { throw TLSError("TLS needs a certificate") }
        var contexts: [OpaquePointer] = []
        var certificates: [TLSCertificate] = []
        do throws(TLSError) {
            for files in files {
                let context = try Self.make()
                contexts.append(context)
                certificates.append(try Self.load(files, into: context))
            }
        } catch {
            for context in contexts { SSL_CTX_free(context) }
            throw error
        }
        self.contexts = contexts
        self.certificates = certificates
        self.tickets = tickets
        var exact: [String: Int] = [:]
        var wildcards: [String: Int] = [:]
        for (index, certificate) in certificates.enumerated() {
            for name in certificate.names {
                if name.hasPrefix("*.") {
                    wildcards[String(name.dropFirst(2))] = wildcards[String(name.dropFirst(2))] ?? index
                } else {
                    exact[name] = exact[name] ?? index
                }
            }
        }
        self.exact = exact
        self.wildcards = wildcards
        let itself = Unmanaged.passUnretained(self).toOpaque()
        for context in contexts {
            // Sessions retain this object, and so what these point to, as long as they are called.
            SSL_CTX_set_ex_data(context, 0, itself)
            SSL_CTX_set_tlsext_ticket_key_evp_cb(context, ticketKeyAsked)
            carillon_tls_on_name(context, nameAsked, itself)
        }
    }

    deinit {
        for context in contexts { SSL_CTX_free(context) }
    }

    /// A session of the first certificate, until its client names another's host.
    func session(on wire: TLSWire) throws(TLSError) -> TLSSession {
        try TLSSession(contexts[0], of: self, .server, on: wire)
    }

    /// The context for a host that a client named: by an exact name, then a wildcard, otherwise the first certificate's.
    fileprivate func context(for host: UnsafePointer<CChar>) -> OpaquePointer {
        var name = String(cString: host).lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        if let index = exact[name] { return contexts[index] }
        if let dot = name.firstIndex(of: "."), let index = wildcards[String(name[name.index(after: dot)...])] {
            return contexts[index]
        }
        return contexts[0]
    }

    // MARK: Making

    private static func make() throws(TLSError) -> OpaquePointer {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw TLSError(openSSL: "no TLS") }
        carillon_tls_server_options(context)
        SSL_CTX_set_security_level(context, 2)
        carillon_tls_mode(context)
        carillon_tls_cache_mode(context, Int(SSL_SESS_CACHE_OFF))
        SSL_CTX_set_num_tickets(context, 1)
        SSL_CTX_set_timeout(context, Int(TLSTicketKeys.lifetime.components.seconds))
        SSL_CTX_set_alpn_select_cb(context, protocolAsked, nil)
        // Sessions of one hub, or of several with the same ticket keys.
        let isSet =
            carillon_tls_versions(context, TLS1_2_VERSION, TLS1_3_VERSION) == 1
            && SSL_CTX_set_cipher_list(context, suites12) == 1 && SSL_CTX_set_ciphersuites(context, suites13) == 1
            && carillon_tls_groups(context, "X25519:P-256:P-384") == 1
            && SSL_CTX_set_session_id_context(context, "carillon", 8) == 1
        guard isSet else {
            SSL_CTX_free(context)
            throw TLSError(openSSL: "OpenSSL refuses the hub's settings")
        }
        return context
    }
}

// MARK: - OpenSSL's callbacks during a handshake

/// ALPN (RFC 7301 §3.2): HTTP/1.1, or no connection.
private func protocolAsked(
    _ ssl: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenCount: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ count: UInt32,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let offered, let chosen, let chosenCount else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    let http: StaticString = "http/1.1"
    var rest = UnsafeRawBufferPointer(start: offered, count: Int(count))
    while let length = rest.first.map(Int.init), length < rest.count {
        let name = UnsafeRawBufferPointer(rebasing: rest[1...length])
        if let start = name.baseAddress, length == http.utf8CodeUnitCount, memcmp(start, http.utf8Start, length) == 0 {
            chosen.pointee = start.assumingMemoryBound(to: UInt8.self)
            chosenCount.pointee = UInt8(length)
            return SSL_TLSEXT_ERR_OK
        }
        rest = UnsafeRawBufferPointer(rebasing: rest[(length + 1)...])
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL
}

/// SNI (RFC 6066 §3).
private func nameAsked(
    _ ssl: OpaquePointer?, _ alert: UnsafeMutablePointer<Int32>?, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let ssl, let argument, let host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) else {
        return SSL_TLSEXT_ERR_NOACK
    }
    let context = Unmanaged<TLSContext>.fromOpaque(argument).takeUnretainedValue().context(for: host)
    guard SSL_set_SSL_CTX(ssl, context) != nil else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    return SSL_TLSEXT_ERR_OK
}

private func ticketKeyAsked(
    _ ssl: OpaquePointer?, _ name: UnsafeMutablePointer<UInt8>?, _ iv: UnsafeMutablePointer<UInt8>?,
    _ cipherContext: OpaquePointer?, _ macContext: OpaquePointer?, _ isNew: Int32
) -> Int32 {
    guard let ssl, let name, let iv, let cipherContext, let macContext,
        let argument = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0)
    else { return -1 }
    let tickets = Unmanaged<TLSContext>.fromOpaque(argument).takeUnretainedValue().tickets
    if isNew == 1 { return tickets.seal(name, iv, cipherContext, macContext) }
    return tickets.open(name, iv, cipherContext, macContext, isSingleUse: SSL_version(ssl) == TLS1_3_VERSION)
}
