import Reactor

/// Certificates and keys of the TLS listeners; empty without TLS.
struct TLSSettings: Sendable {
    var certificateFiles: [String] = []
    var keyFiles: [String] = []
    var ticketKeysFile: String?

    static let certificatesMax = 100

    /// - Throws: a failure that names the settings at fault. Opens no files.
    func check(_ effective: EffectiveSettings, _ listen: [ListenSetting]) throws(Failure) {
        let (certificates, keys) = (SettingsTable[\.tls.certificateFiles], SettingsTable[\.tls.keyFiles])
        let (given, missing) = keyFiles.isEmpty ? (certificates, keys) : (keys, certificates)
        let secured = listen.first(where: \.usesTLS)
        let problem: (setting: Setting, words: String)? =
            if certificateFiles.isEmpty != keyFiles.isEmpty {
                (
                    given,
                    """
                    \(given.key) is given, and \(missing.key) is not; give that too (\(missing.option), \
                    \(missing.environment)): each certificate needs its key, in the same order
                    """
                )
            } else if certificateFiles.count != keyFiles.count {
                (
                    keys,
                    """
                    tls.keyFiles names \(keyFiles.count) files and tls.certificateFiles \(certificateFiles.count); each \
                    certificate needs its key, in the same order
                    """
                )
            } else if certificateFiles.count > Self.certificatesMax {
                (
                    certificates,
                    "tls.certificateFiles names \(certificateFiles.count) files; at most \(Self.certificatesMax) are served"
                )
            } else if ticketKeysFile != nil, certificateFiles.isEmpty {
                (SettingsTable[\.tls.ticketKeysFile], "tls.ticketKeysFile is of no use without tls.certificateFiles")
            } else if let secured, certificateFiles.isEmpty {
                (
                    SettingsTable[\.listen],
                    """
                    listen names \(secured), and no tls.certificateFiles are given; name certificates and their \
                    tls.keyFiles, or leave tls: out
                    """
                )
            } else if secured == nil, !certificateFiles.isEmpty {
                (
                    certificates,
                    "tls.certificateFiles are given, and no address of listen uses them; write it as tls:ADDRESS"
                )
            } else {
                nil
            }
        if let problem { throw effective.failure(problem.setting, problem.words) }
    }

    /// Reads the files; nil when there are none.
    ///
    /// - Throws: a configuration failure that names the setting and the file.
    func server() throws(Failure) -> TLSServer? {
        guard !certificateFiles.isEmpty else { return nil }
        do throws(TLSError) {
            return try TLSServer(
                TLSServer.Files(
                    certificates: zip(certificateFiles, keyFiles).map { TLSCertificateFiles(certificate: $0, key: $1) },
                    ticketKeys: ticketKeysFile))
        } catch {
            throw Failure("\(key(of: error)): \(error)", status: .configuration)
        }
    }

    /// The setting, or both settings, that name the file of which an error tells; otherwise "tls".
    private func key(of error: TLSError) -> String {
        let named = [
            (SettingsTable[\.tls.certificateFiles], certificateFiles), (SettingsTable[\.tls.keyFiles], keyFiles),
            (SettingsTable[\.tls.ticketKeysFile], ticketKeysFile.map { [$0] } ?? []),
        ].filter { _, files in files.contains { error.description.hasPrefix("\($0): ") } }.map(\.0.key)
        return named.isEmpty ? "tls" : named.joined(separator: ", ")
    }
}
