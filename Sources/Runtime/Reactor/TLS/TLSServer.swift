/// The TLS of a hub's listeners: the context in use, and the way to replace it while connections stay.
package final class TLSServer: Sendable {
    /// What it is made of; read again by `reload`.
    package struct Files: Sendable, Hashable {
        /// The first one serves clients that name no host, or one that none of them has.
        package var certificates: [TLSCertificateFiles]
        /// Ticket keys, which several hubs may share; nil: random ones of this hub.
        package var ticketKeys: String?

        /// Certificates, and the file of ticket keys where there is one.
        package init(certificates: [TLSCertificateFiles], ticketKeys: String? = nil) {
            self.certificates = certificates
            self.ticketKeys = ticketKeys
        }
    }

    private let files: Files
    private let context: Locked<TLSContext>

    /// Reads the files.
    ///
    /// - Throws: the first one that is missing or is not what it should be.
    package init(_ files: Files) throws(TLSError) {
        self.files = files
        context = Locked(try Self.read(files, before: nil))
    }

    /// Reads the files anew. Connections keep what they have; those that come get the new.
    ///
    /// - Throws: what is wrong with a file; all stays as it was.
    package func reload() throws(TLSError) {
        let new = try Self.read(files, before: context.withLock { $0 })
        // The old one goes with its last session, and not under the lock.
        let old = context.withLock { context in
            let old = context
            context = new
            return old
        }
        withExtendedLifetime(old) {}
    }

    /// A session for a connection that was accepted. Any loop, with its own wire.
    package func session(on wire: TLSWire) throws(TLSError) -> TLSSession {
        try context.withLock { $0 }.session(on: wire)
    }

    /// The certificates in use.
    package var certificates: [TLSCertificate] { context.withLock { $0 }.certificates }

    /// What the operator should know: certificates near their end, secrets that everybody can read.
    package func warnings() -> [String] {
        let secrets = files.certificates.map(\.key) + (files.ticketKeys.map { [$0] } ?? [])
        return certificates.compactMap { $0.warning() } + secrets.compactMap { SecretFile.warning($0) }
    }

    private static func read(_ files: Files, before: TLSContext?) throws(TLSError) -> TLSContext {
        let tickets: TLSTicketKeys
        if let file = files.ticketKeys {
            tickets = try TLSTicketKeys(file: file)
        } else if let before {
            // Or a new certificate would cost all clients a whole handshake.
            tickets = before.tickets
        } else {
            tickets = try TLSTicketKeys()
        }
        return try TLSContext(files.certificates, tickets: tickets)
    }
}
