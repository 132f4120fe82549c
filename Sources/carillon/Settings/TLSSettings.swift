import Reactor

/// Certificates and keys of the listeners with TLS.
struct TLSSettings: Sendable {
    var files: TLSServer.Files
    var handshakeTimeout: Duration
}

extension TLSSettings {
    /// Certificates hub-wide, at most.
    static let certificatesMax = 100

    /// Nil where no certificate is named.
    ///
    /// - Throws: a failure that names the settings concerned. The files are not opened.
    init?(_ effective: EffectiveSettings) throws(Failure) {
        handshakeTimeout = try effective.required(SettingsTable.tlsHandshakeTimeout)
        let certificates = try effective.value(SettingsTable.tlsCertificateFiles) ?? []
        let keys = try effective.value(SettingsTable.tlsKeyFiles) ?? []
        let ticketKeys = try effective.value(SettingsTable.tlsTicketKeysFile)
        let (given, missing) =
            keys.isEmpty
            ? (SettingsTable.tlsCertificateFiles, SettingsTable.tlsKeyFiles)
            : (SettingsTable.tlsKeyFiles, SettingsTable.tlsCertificateFiles)
        guard certificates.isEmpty == keys.isEmpty else {
            throw Failure(
                """
                \(effective.source(of: given)): \(given.row.key) is given, and \(missing.row.key) is not; give that too \
                (\(missing.row.option), \(missing.row.environment)): each certificate needs its key, in the same order
                """, status: .configuration)
        }
        guard certificates.count == keys.count else {
            throw Failure(
                """
                \(effective.source(of: SettingsTable.tlsKeyFiles)): tls.keyFiles names \(keys.count) files and \
                tls.certificateFiles \(certificates.count); each certificate needs its key, in the same order
                """, status: .configuration)
        }
        guard certificates.count <= Self.certificatesMax else {
            throw Failure(
                """
                \(effective.source(of: SettingsTable.tlsCertificateFiles)): tls.certificateFiles names \
                \(certificates.count) files; at most \(Self.certificatesMax) are served
                """, status: .configuration)
        }
        guard !certificates.isEmpty else {
            guard ticketKeys == nil else {
                throw Failure(
                    """
                    \(effective.source(of: SettingsTable.tlsTicketKeysFile)): tls.ticketKeysFile is of no use without \
                    tls.certificateFiles
                    """, status: .configuration)
            }
            return nil
        }
        files = TLSServer.Files(
            certificates: zip(certificates, keys).map { TLSCertificateFiles(certificate: $0, key: $1) },
            ticketKeys: ticketKeys)
    }

    /// Reads the files.
    ///
    /// - Throws: a failure of the configuration that names the file.
    func server() throws(Failure) -> TLSServer {
        do throws(TLSError) {
            return try TLSServer(files)
        } catch {
            throw Failure("tls: \(error)", status: .configuration)
        }
    }
}
