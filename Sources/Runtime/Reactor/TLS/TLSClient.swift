import COpenSSL
import Glibc

/// A version of TLS. Versions before 1.2 are for tests of their refusal.
package enum TLSVersion: Sendable {
    case tls10, tls11, tls12, tls13

    var number: Int32 {
        switch self {
        case .tls10: TLS1_VERSION
        case .tls11: TLS1_1_VERSION
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}

/// The client's side of TLS, for the hub's connections to servers and its own tools. Belongs to one loop.
package final class TLSClient {
    /// The client's settings.
    package struct Manner {
        /// PEM file of the roots that servers are judged by; nil: `trustsSystem` decides.
        package var rootsFile: String?
        /// Judges servers by the system's roots, if there is no file; if false, servers are not judged.
        package var trustsSystem = false
        /// What the client shows to a server that asks for a certificate; nil: nothing.
        package var identity: TLSCertificateFiles?
        /// Resumes earlier sessions.
        package var resumes = false
        /// The oldest version offered.
        package var oldest = TLSVersion.tls12
        /// The newest version offered.
        package var newest = TLSVersion.tls13
        /// Names of protocols offered (ALPN); none: no offer.
        package var protocols = ["http/1.1"]
        /// OpenSSL's names of the TLS 1.2 suites offered; nil: its own choice.
        package var suites: String?

        /// The defaults: the system's certificates, and OpenSSL's choices.
        package init() {}
    }

    private let context: OpaquePointer
    private let manner: Manner
    /// The newest session with a ticket.
    private var newest: OpaquePointer?

    /// - Throws: where OpenSSL refuses the settings, or a file cannot be used; the error names it.
    package init(_ manner: Manner = Manner()) throws(TLSError) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw TLSError(openSSL: "no TLS") }
        self.context = context
        self.manner = manner
        carillon_tls_mode(context)
        _ = carillon_tls_versions(context, manner.oldest.number, manner.newest.number)
        if let suites = manner.suites, SSL_CTX_set_cipher_list(context, suites) != 1 {
            throw TLSError(openSSL: "these suites")
        }
        if let roots = manner.rootsFile {
            try SecretFile.check(roots)
            guard SSL_CTX_load_verify_locations(context, roots, nil) == 1 else {
                throw TLSError(openSSL: "\(roots): holds no certificate in PEM form")
            }
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        } else if manner.trustsSystem {
            SSL_CTX_set_default_verify_paths(context)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        } else {
            SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nil)
        }
        if let identity = manner.identity { _ = try TLSContext.load(identity, into: context) }
        let offer = manner.protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        if !offer.isEmpty { SSL_CTX_set_alpn_protos(context, offer, UInt32(offer.count)) }
        if manner.resumes {
            carillon_tls_cache_mode(context, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
            SSL_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(self).toOpaque())
            SSL_CTX_sess_set_new_cb(context) { ssl, session in
                guard let ssl, let argument = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0) else { return 0 }
                Unmanaged<TLSClient>.fromOpaque(argument).takeUnretainedValue().keep(session)
                // The reference is ours.
                return 1
            }
        }
    }

    deinit {
        SSL_SESSION_free(newest)
        SSL_CTX_free(context)
    }

    /// Whether there is a session to resume.
    package var canResume: Bool { newest != nil }

    /// Takes over a reference to the session to resume next.
    func keep(_ session: OpaquePointer?) {
        SSL_SESSION_free(newest)
        newest = session
    }

    /// A session with the server called `host`, to be begun with `TLSSession.start`.
    package func session(host: String?, on wire: TLSWire) throws(TLSError) -> TLSSession {
        let session = try TLSSession(context, of: self, .client, on: wire)
        let isNamed = session.withOpenSSL { ssl in
            // A copy: once a handshake of TLS 1.3 has used a session, OpenSSL offers it no more, and another connection that
            // begins before the next ticket comes would make a full handshake.
            if manner.resumes, let newest, let copy = SSL_SESSION_dup(newest) {
                SSL_set_session(ssl, copy)
                SSL_SESSION_free(copy)
            }
            guard let host else { return true }
            // An address may not be sent as a name (RFC 6066 §3), but the certificate may have it.
            if PeerAddress(host) == nil { _ = carillon_tls_name(ssl, host) }
            return SSL_set1_host(ssl, host) == 1
        }
        guard isNamed else { throw TLSError(openSSL: "no certificate can have this host's name") }
        return session
    }
}
