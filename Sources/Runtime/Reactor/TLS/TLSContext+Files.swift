import COpenSSL

/// Loads certificates and keys from files. An error names the file and says what to do.
extension TLSContext {
    /// Has a context use a certificate, its chain, and its key.
    static func load(
        _ files: TLSCertificateFiles, into context: OpaquePointer
    ) throws(TLSError) -> TLSCertificate {
        try SecretFile.check(files.certificate)
        try SecretFile.check(files.key)
        defer { OpenSSLErrors.clear() }
        guard SSL_CTX_use_certificate_chain_file(context, files.certificate) == 1,
            let certificate = SSL_CTX_get0_certificate(context)
        else { throw fault(ofCertificates: files.certificate) }
        // For a key with a password, OpenSSL would ask on the terminal.
        var isLocked = false
        let isRead = withUnsafeMutablePointer(to: &isLocked) { isLocked in
            SSL_CTX_set_default_passwd_cb(context, passwordAsked)
            SSL_CTX_set_default_passwd_cb_userdata(context, isLocked)
            defer { SSL_CTX_set_default_passwd_cb_userdata(context, nil) }
            return SSL_CTX_use_PrivateKey_file(context, files.key, SSL_FILETYPE_PEM) == 1
        }
        guard !isLocked else {
            throw TLSError(
                "\(files.key): this key has a password, which nobody could give: openssl pkey -in FILE -out NEW takes it off"
            )
        }
        guard isRead || carillon_error_library(ERR_peek_last_error()) == ERR_LIB_X509 else {
            throw TLSError(openSSL: "\(files.key): holds no private key in PEM form")
        }
        // Reading a key of another type than the certificate's does not fail.
        guard isRead, SSL_CTX_check_private_key(context) == 1 else { throw mismatch(of: files) }
        return TLSCertificate(certificate, path: files.certificate)
    }

    private static func fault(ofCertificates file: String) -> TLSError {
        let code = ERR_peek_last_error()
        let weak = "too weak, and clients refuse it"
        switch (carillon_error_library(code), carillon_error_reason(code)) {
        case (ERR_LIB_SSL, SSL_R_EE_KEY_TOO_SMALL):
            var bits: Int32 = 0
            forEachCertificate(in: file) { number, certificate in
                if number == 1 { bits = EVP_PKEY_get_bits(X509_get0_pubkey(certificate)) }
            }
            return TLSError(
                """
                \(file): the certificate's key of \(bits) bits is \(weak); get one for a key of RSA with 2048 bits or more, \
                or of P-256
                """)
        case (ERR_LIB_SSL, SSL_R_CA_KEY_TOO_SMALL):
            return TLSError("\(file): the key of a certificate after the first is \(weak); get one of another issuer")
        case (ERR_LIB_SSL, SSL_R_CA_MD_TOO_WEAK):
            return TLSError(
                "\(file): the digest by which a certificate in it is signed is \(weak); get one with SHA-256")
        default:
            return TLSError(openSSL: "\(file): holds no certificate in PEM form")
        }
    }

    /// The key does not fit the first certificate. It may fit another one, where the order is wrong.
    private static func mismatch(of files: TLSCertificateFiles) -> TLSError {
        var owner: Int?
        if let bio = BIO_new_file(files.key, "r") {
            defer { BIO_free(bio) }
            if let key = PEM_read_bio_PrivateKey(bio, nil, passwordAsked, nil) {
                defer { EVP_PKEY_free(key) }
                forEachCertificate(in: files.certificate) { number, certificate in
                    if X509_check_private_key(certificate, key) == 1 { owner = owner ?? number }
                }
            }
        }
        guard let owner else {
            return TLSError("\(files.key): is not the key of the certificate in \(files.certificate)")
        }
        return TLSError(
            """
            \(files.certificate): the certificate of the key in \(files.key) is number \(owner) in it; put it first, and after \
            it those between it and its root
            """)
    }

    /// - Parameter body: gets the position of each, counted from 1.
    private static func forEachCertificate(in file: String, _ body: (Int, OpaquePointer) -> Void) {
        guard let bio = BIO_new_file(file, "r") else { return }
        defer { BIO_free(bio) }
        var number = 1
        while let certificate = PEM_read_bio_X509(bio, nil, nil, nil) {
            body(number, certificate)
            X509_free(certificate)
            number += 1
        }
    }
}

private func passwordAsked(
    _ password: UnsafeMutablePointer<CChar>?, _ capacity: Int32, _ isWriting: Int32,
    _ isLocked: UnsafeMutableRawPointer?
) -> Int32 {
    isLocked?.assumingMemoryBound(to: Bool.self).pointee = true
    return 0
}
