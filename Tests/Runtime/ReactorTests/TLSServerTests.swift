import COpenSSL
import Clock
import Glibc
import TestSupport
import Testing

@testable import Reactor

@Suite(.ownThread, .timeLimit(.minutes(15))) struct TLSServerTests {
    private let folder: CertificateFolder
    private let wires: (TLSWire, TLSWire)

    init() throws {
        folder = try CertificateFolder()
        wires = (try TLSWire(), try TLSWire())
    }

    private func files(_ pair: CertificateFolder.Pair) -> TLSCertificateFiles {
        TLSCertificateFiles(certificate: pair.certificate, key: pair.key)
    }

    private func ticketFile(_ keys: [UInt8]..., name: String = "tickets") throws -> String {
        try folder.write(keys.flatMap { $0 }, to: name)
    }

    private func connect(_ server: TLSServer, _ client: TLSClient, host: String? = "localhost") throws -> TLSWorld {
        let world = try TLSWorld(server, client, host: host, on: wires)
        world.settle()
        return world
    }

    private func commonName(_ world: TLSWorld) -> String {
        world.client.withOpenSSL { ssl in
            guard let certificate = SSL_get1_peer_certificate(ssl) else { return "none" }
            defer { X509_free(certificate) }
            var text = [CChar](repeating: 0, count: 100)
            X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, &text, 100)
            return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
    }

    @Test func theHostsNameChoosesTheCertificate() throws {
        let server = try TLSServer(
            .init(certificates: [
                files(try folder.make("first", hosts: ["first.example"])),
                files(try folder.make("star", hosts: ["star", "*.example.org"])),
                files(try folder.make("exact", hosts: ["a.example.org"], kind: .rsa2048)),
            ]))
        let client = try TLSClient()
        let expected: [(String?, String)] = [
            (nil, "first.example"), ("first.example", "first.example"), ("elsewhere.example", "first.example"),
            ("b.example.org", "star"), ("B.Example.ORG", "star"), ("a.example.org", "a.example.org"),
            ("A.example.org", "a.example.org"), ("c.b.example.org", "first.example"),
            ("example.org", "first.example"), ("star", "star"), ("localhost", "first.example"),
        ]
        for (host, name) in expected {
            let world = try connect(server, client, host: host)
            #expect(world.client.isEstablished, "\(host ?? "none")")
            #expect(commonName(world) == name, "\(host ?? "none")")
        }
        #expect(server.certificates.map(\.names) == [["first.example"], ["star", "*.example.org"], ["a.example.org"]])
    }

    // MARK: Tickets

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func sharedKeysResumeAtAnotherHubAndAfterRotation(_ version: TLSVersion) throws {
        var random = SeededRandom()
        let (old, new, newer) = (random.bytes(80), random.bytes(80), random.bytes(80))
        let pair = files(try folder.make("one", hosts: ["localhost"]))
        let file = try ticketFile(old)
        let here = try TLSServer(.init(certificates: [pair], ticketKeys: file))
        let there = try TLSServer(.init(certificates: [pair], ticketKeys: try ticketFile(old, name: "copy")))
        let stranger = try TLSServer(.init(certificates: [pair]))
        var manner = TLSClient.Manner()
        (manner.oldest, manner.newest) = (version, version)
        manner.resumes = true
        let client = try TLSClient(manner)
        #expect(!client.canResume)
        #expect(!(try connect(here, client).server.isResumed))
        #expect(client.canResume)
        #expect(try connect(here, client).server.isResumed)
        #expect(try connect(there, client).server.isResumed, "another hub with the same keys")
        _ = try ticketFile(new, old)
        try here.reload()
        let renewed = try connect(here, client)
        #expect(renewed.server.isResumed, "after a rotation")
        // OpenSSL's TLS 1.2 clients do not report a ticket that comes with a resumption.
        client.keep(renewed.client.withOpenSSL { SSL_get1_session($0) })
        _ = try ticketFile(newer, new)
        try here.reload()
        #expect(try connect(here, client).server.isResumed, "its ticket was renewed")
        #expect(!(try connect(there, client).server.isResumed), "which the other hub cannot read yet")
        let lost = try connect(stranger, client)
        #expect(!lost.server.isResumed)
        #expect(lost.server.isEstablished, "a ticket that nobody can read is no reason to fail")
    }

    /// Two connections of a load test begin with one ticket, and the first is through before the second says its hello.
    @Test(arguments: [TLSVersion.tls12, .tls13])
    func connectionsThatBeginWithOneTicketAllResume(_ version: TLSVersion) throws {
        let server = try TLSServer(.init(certificates: [files(try folder.make("one", hosts: ["localhost"]))]))
        var manner = TLSClient.Manner()
        (manner.oldest, manner.newest) = (version, version)
        manner.resumes = true
        let client = try TLSClient(manner)
        #expect(!(try connect(server, client).server.isResumed))
        let worlds = try (0..<3).map { _ in try TLSWorld(server, client, host: "localhost", on: wires) }
        for world in worlds {
            world.settle()
            #expect(world.server.isResumed && world.client.isResumed)
        }
    }

    @Test func randomKeysChangeByTimeAndTicketsLiveOn() throws {
        let start = Instant(nanoseconds: 0)
        let tickets = try TLSTicketKeys(now: start)
        let period = TLSTicketKeys.period
        func name(at now: Instant) throws -> [UInt8] {
            let (cipher, mac) = try contexts()
            defer {
                EVP_CIPHER_CTX_free(cipher)
                EVP_MAC_CTX_free(mac)
            }
            var (name, iv) = ([UInt8](repeating: 0, count: 16), [UInt8](repeating: 0, count: 16))
            #expect(tickets.seal(&name, &iv, cipher, mac, now: now) == 1)
            return name
        }
        func opens(_ name: [UInt8], at now: Instant) throws -> Int32 {
            let (cipher, mac) = try contexts()
            defer {
                EVP_CIPHER_CTX_free(cipher)
                EVP_MAC_CTX_free(mac)
            }
            let iv = [UInt8](repeating: 0, count: 16)
            return tickets.open(name, iv, cipher, mac, isSingleUse: false, now: now)
        }
        let first = try name(at: start)
        #expect(try name(at: start.advanced(by: period - .seconds(1))) == first)
        #expect(try opens(first, at: start) == 1)
        let second = try name(at: start.advanced(by: period))
        #expect(second != first)
        #expect(try opens(first, at: start.advanced(by: period)) == 2, "good, and renewed")
        let third = try name(at: start.advanced(by: period + period))
        #expect(try opens(first, at: start.advanced(by: period + period)) == 2)
        let fourth = try name(at: start.advanced(by: period + period + period))
        #expect(try opens(first, at: start.advanced(by: period + period + period)) == 0, "past its lifetime")
        #expect(try opens(second, at: start.advanced(by: period + period + period)) == 2)
        #expect(try opens(third, at: start.advanced(by: period + period + period)) == 2)
        // After a long silence.
        #expect(try opens(fourth, at: start.advanced(by: period + period + period + period * 4)) == 0)
    }

    private func contexts() throws -> (OpaquePointer, OpaquePointer) {
        let mac = EVP_MAC_fetch(nil, "HMAC", nil)
        defer { EVP_MAC_free(mac) }
        return (try #require(EVP_CIPHER_CTX_new()), try #require(EVP_MAC_CTX_new(mac)))
    }

    @Test(arguments: [0, 1, 79, 81, 160, 16 * 80, 17 * 80])
    func ticketKeysHaveEightyBytesEach(_ count: Int) throws {
        let file = try ticketFile([UInt8](repeating: 7, count: count))
        guard count > 0, count % 80 == 0, count <= 16 * 80 else {
            let error = #expect(throws: TLSError.self) { try TLSTicketKeys(file: file) }
            #expect(error?.description.hasPrefix("\(file): holds ") == true)
            return
        }
        _ = try TLSTicketKeys(file: file)
    }

    // MARK: Files

    @Test func reloadServesTheNewAndABrokenFileChangesNothing() throws {
        let pair = try folder.make("one", hosts: ["old.example"])
        let server = try TLSServer(.init(certificates: [files(pair)]))
        let client = try TLSClient()
        let before = try connect(server, client, host: nil)
        // A handshake begun with the old certificate ends with it.
        let meanwhile = try TLSWorld(server, client, host: nil, on: wires)
        _ = meanwhile.client.start(meanwhile.clientSocket)
        meanwhile.toServer(meanwhile.sentByClient()[...])

        try folder.make("one", hosts: ["new.example"])
        try server.reload()
        #expect(commonName(try connect(server, client, host: nil)) == "new.example")
        meanwhile.toClient(meanwhile.sentByServer()[...])
        meanwhile.settle()
        #expect(meanwhile.server.isEstablished && commonName(meanwhile) == "old.example")
        #expect(Array("still".utf8).withUnsafeBytes { before.client.seal($0) })
        #expect(before.client.send(before.clientSocket) == .all)
        before.settle()
        #expect(before.serverRead == Array("still".utf8))

        _ = try folder.write(Array("-----BEGIN CERTIFICATE-----\nAAAA\n".utf8), to: "one.pem")
        let error = #expect(throws: TLSError.self) { try server.reload() }
        #expect(error?.description.hasPrefix("\(pair.certificate): ") == true)
        #expect(commonName(try connect(server, client, host: nil)) == "new.example")
        #expect(ERR_peek_error() == 0)
    }

    @Test func whatIsWrongWithAFileIsSaid() throws {
        let one = try folder.make("one", hosts: ["one"])
        let two = try folder.make("two", hosts: ["two"])
        let missing = folder.file("missing.pem")
        func complaint(_ certificate: String, _ key: String, tickets: String? = nil) -> String {
            let error = #expect(throws: TLSError.self) {
                try TLSServer(
                    .init(certificates: [.init(certificate: certificate, key: key)], ticketKeys: tickets))
            }
            #expect(ERR_peek_error() == 0)
            return error?.description ?? ""
        }
        #expect(complaint(missing, one.key) == "\(missing): No such file or directory")
        #expect(complaint(one.certificate, missing) == "\(missing): No such file or directory")
        #expect(complaint(one.certificate, one.key, tickets: missing) == "\(missing): No such file or directory")
        #expect(complaint(one.key, one.key).hasPrefix("\(one.key): holds no certificate in PEM form"))
        #expect(complaint(one.certificate, one.certificate).hasPrefix("\(one.certificate): holds no private key"))
        #expect(
            complaint(one.certificate, two.key).hasPrefix(
                "\(two.key): is not the key of the certificate in \(one.certificate)"))
        let junk = try folder.write(SeededRandom().withBytes(1000), to: "junk")
        #expect(complaint(junk, one.key).hasPrefix("\(junk): holds no certificate in PEM form"))
        #expect(complaint(one.certificate, junk).hasPrefix("\(junk): holds no private key"))
    }

    /// Cases where OpenSSL has one word only, or a misleading one.
    @Test func whatIsWrongWithAFileIsSaidWithWhatToDo() throws {
        func complaint(_ certificate: String, _ key: String) -> String {
            let error = #expect(throws: TLSError.self) {
                try TLSServer(.init(certificates: [.init(certificate: certificate, key: key)]))
            }
            #expect(ERR_peek_error() == 0)
            return error?.description ?? ""
        }
        func joined(_ name: String, _ pairs: CertificateFolder.Pair...) throws -> String {
            try folder.write(try pairs.flatMap { try folder.read($0.certificate) }, to: name)
        }
        let weak = try folder.make("weak", hosts: ["one"], kind: .rsa1024)
        let (leaf, other) = (try folder.make("leaf", hosts: ["one"]), try folder.make("other", hosts: ["two"]))
        let root = try folder.make("root", hosts: ["ca"], kind: .rsa2048)
        #expect(
            complaint(weak.certificate, weak.key) == """
                \(weak.certificate): the certificate's key of 1024 bits is too weak, and clients refuse it; get one for a \
                key of RSA with 2048 bits or more, or of P-256
                """)
        let behind = try joined("behind.pem", leaf, weak)
        #expect(
            complaint(behind, leaf.key).hasPrefix("\(behind): the key of a certificate after the first is too weak"))
        for first in [other, root] {
            // Of the leaf's key type, and of another.
            let disordered = try joined("disordered.pem", first, leaf)
            #expect(
                complaint(disordered, leaf.key) == """
                    \(disordered): the certificate of the key in \(leaf.key) is number 2 in it; put it first, and after it those \
                    between it and its root
                    """)
        }
        let all = try joined("all.pem", leaf, root)
        #expect(try TLSServer(.init(certificates: [.init(certificate: all, key: leaf.key)])).certificates.count == 1)
        #expect(complaint(all, other.key) == "\(other.key): is not the key of the certificate in \(all)")
        let stranger = complaint(leaf.certificate, root.key)
        #expect(stranger == "\(root.key): is not the key of the certificate in \(leaf.certificate)")
        let locked = try folder.lock(leaf.key, "locked.key")
        #expect(complaint(leaf.certificate, locked).hasPrefix("\(locked): this key has a password"))
    }

    @Test func theOperatorIsWarned() throws {
        let soon = try folder.make("soon", hosts: ["soon"], days: 3)
        let late = try folder.make("late", hosts: ["late"], days: 90)
        let tickets = try ticketFile([UInt8](repeating: 1, count: 80))
        for path in [soon.key, late.key, tickets] { chmod(path, 0o600) }
        let server = try TLSServer(.init(certificates: [files(soon), files(late)], ticketKeys: tickets))
        // Three days less the time since, which may be zero.
        #expect(
            (2...3).contains { days in
                server.warnings()
                    == ["\(soon.certificate): this certificate expires in \(days) days; put a new one there"]
            })
        let certificate = server.certificates[1]
        let day: Int64 = 86_400
        #expect(abs(certificate.expiresAt - certificate.validFrom - 90 * day) <= 1)
        #expect(certificate.warning(now: certificate.expiresAt)?.contains("has expired") == true)
        #expect(certificate.warning(now: certificate.expiresAt - 14 * day) == nil)
        #expect(certificate.warning(now: certificate.expiresAt - 14 * day + 1)?.contains("13 days") == true)
        #expect(certificate.warning(now: certificate.validFrom - 1)?.contains("not valid yet") == true)
        chmod(late.key, 0o644)
        chmod(tickets, 0o604)
        #expect(server.warnings().dropFirst().map { $0.prefix { $0 != ":" } } == [late.key[...], tickets[...]])
    }
}

extension SeededRandom {
    fileprivate func withBytes(_ count: Int) -> [UInt8] {
        var copy = self
        return copy.bytes(count)
    }
}
