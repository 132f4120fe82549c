import Reactor

/// Certificates and keys of the listeners with TLS.
struct TLSSettings: Sendable {
    var files: TLSServer.Files
}

extension TLSSettings {
    static let certificateFiles = Setting(
        "tls.certificateFiles", takes: "paths", fallback: nil,
        "PEM files, each a certificate and those between it and its root, separated by commas; the first is for clients "
            + "that name no host, or another. Read again on SIGHUP.", parse: SettingValues.paths)

    static let keyFiles = Setting(
        "tls.keyFiles", takes: "paths", fallback: nil,
        "PEM files of their private keys, without passwords, in the same order.", parse: SettingValues.paths)

    static let ticketKeysFile = Setting(
        "tls.ticketKeysFile", takes: "path", fallback: nil,
        "Keys of session tickets that several hubs share, 80 random bytes each: the first seals, all open. Read again on "
            + "SIGHUP; without one, keys are random and change every 12 hours.", parse: SettingValues.text)

    static let handshakeTimeout = Setting.time(
        "tls.handshakeTimeout", "10s", .milliseconds(100) ... .seconds(300),
        "Time from a connection's accept to the end of its TLS handshake.")

    static let rows = [certificateFiles.row, keyFiles.row, ticketKeysFile.row, handshakeTimeout.row]

    /// Certificates hub-wide, at most.
    static let certificatesMax = 100

    /// Nil where no certificate is named.
    ///
    /// - Throws: a failure that names the settings concerned. The files are not opened.
    init?(_ effective: EffectiveSettings) throws(Failure) {
        let certificates = try effective.value(TLSSettings.certificateFiles) ?? []
        let keys = try effective.value(TLSSettings.keyFiles) ?? []
        let ticketKeys = try effective.value(TLSSettings.ticketKeysFile)
        let (given, missing) =
            keys.isEmpty
            ? (TLSSettings.certificateFiles, TLSSettings.keyFiles)
            : (TLSSettings.keyFiles, TLSSettings.certificateFiles)
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
                \(effective.source(of: TLSSettings.keyFiles)): tls.keyFiles names \(keys.count) files and \
                tls.certificateFiles \(certificates.count); each certificate needs its key, in the same order
                """, status: .configuration)
        }
        guard certificates.count <= Self.certificatesMax else {
            throw Failure(
                """
                \(effective.source(of: TLSSettings.certificateFiles)): tls.certificateFiles names \
                \(certificates.count) files; at most \(Self.certificatesMax) are served
                """, status: .configuration)
        }
        guard !certificates.isEmpty else {
            guard ticketKeys == nil else {
                throw Failure(
                    """
                    \(effective.source(of: TLSSettings.ticketKeysFile)): tls.ticketKeysFile is of no use without \
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
