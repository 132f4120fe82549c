/// The TLS of a hub's listeners: the context in use, which can be replaced while connections stay.
package final class TLSServer: Sendable {
    /// The files that it is made from; `reload` reads them again.
    package struct Files: Sendable, Hashable {
        /// The first one serves clients that name no host, or one that no certificate has.
        package var certificates: [TLSCertificateFiles]
        /// Ticket keys, which several hubs may share; nil: random ones of this hub.
        package var ticketKeys: String?

        /// Certificates, and the file of ticket keys if there is one.
        package init(certificates: [TLSCertificateFiles], ticketKeys: String? = nil) {
            self.certificates = certificates
            self.ticketKeys = ticketKeys
        }
    }

    private let files: Files
    private let context: Locked<TLSContext>

    /// Reads the files.
    ///
    /// - Throws: the first one that is missing or wrong.
    package init(_ files: Files) throws(TLSError) {
        self.files = files
        context = Locked(try Self.read(files, before: nil))
    }

    /// Reads the files again. Existing connections keep their context; new ones get the new one.
    ///
    /// - Throws: what is wrong with a file; nothing has changed then.
    package func reload() throws(TLSError) {
        let new = try Self.read(files, before: context.withLock { $0 })
        // The old context is freed with its last session, not under the lock.
        let old = context.withLock { context in
            let old = context
            context = new
            return old
        }
        withExtendedLifetime(old) {}
    }

    /// A session for an accepted connection. Any loop, with its own wire.
    package func session(on wire: TLSWire) throws(TLSError) -> TLSSession {
        try context.withLock { $0 }.session(on: wire)
    }

    /// The certificates in use.
    package var certificates: [TLSCertificate] { context.withLock { $0 }.certificates }

    /// Warnings for the operator: certificates near their end, secrets that everybody can read.
    package func warnings() -> [String] {
        let secrets = files.certificates.map(\.key) + (files.ticketKeys.map { [$0] } ?? [])
        return certificates.compactMap { $0.warning() } + secrets.compactMap { SecretFile.warning($0) }
    }

    private static func read(_ files: Files, before: TLSContext?) throws(TLSError) -> TLSContext {
        let tickets: TLSTicketKeys
        if let file = files.ticketKeys {
            tickets = try TLSTicketKeys(file: file)
        } else if let before {
            // Otherwise a new certificate would cost every client a full handshake.
            tickets = before.tickets
        } else {
            tickets = try TLSTicketKeys()
        }
        return try TLSContext(files.certificates, tickets: tickets)
    }
}
