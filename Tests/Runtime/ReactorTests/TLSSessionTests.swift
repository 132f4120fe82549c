import COpenSSL
import Glibc
import TestSupport
import Testing

@testable import Reactor

@Suite(.ownThread, .timeLimit(.minutes(15))) struct TLSSessionTests {
    private let folder: CertificateFolder
    private let server: TLSServer
    private let wires: (TLSWire, TLSWire)

    init() throws {
        folder = try CertificateFolder()
        let pair = try folder.make("one", hosts: ["localhost"])
        server = try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
        wires = (try TLSWire(), try TLSWire())
    }

    private func world(_ change: (inout TLSClient.Manner) -> Void = { _ in }) throws -> TLSWorld {
        var manner = TLSClient.Manner()
        change(&manner)
        return try TLSWorld(server, try TLSClient(manner), on: wires)
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func bothVersionsCarryBytesBothWays(_ version: TLSVersion) throws {
        let world = try world { ($0.oldest, $0.newest) = (version, version) }
        world.settle()
        #expect(world.server.isEstablished && world.client.isEstablished)
        #expect(world.server.version == (version == .tls13 ? "TLSv1.3" : "TLSv1.2"))
        #expect(!world.server.isResumed)
        #expect(seal("ping", world.client) && world.client.send(world.clientSocket) == .all)
        #expect(seal("pong", world.server) && world.server.send(world.serverSocket) == .all)
        world.settle()
        #expect(world.serverRead == Array("ping".utf8))
        #expect(world.clientRead == Array("pong".utf8))
    }

    @Test func theServerIsJudgedByItsRoots() throws {
        let good = try world { $0.rootsFile = folder.file("one.pem") }
        good.settle()
        #expect(good.client.isEstablished)
        let other = try folder.make("other", hosts: ["localhost"])
        let bad = try world { $0.rootsFile = other.certificate }
        bad.settle()
        #expect(!bad.client.isEstablished)
        #expect(bad.server.failure == .refusedByClient)
        #expect(ERR_peek_error() == 0, "nothing is left for the next connection")
    }

    /// Cuts the client's flights in two at every position, and sends every byte alone.
    @Test(arguments: [TLSVersion.tls12, .tls13])
    func flightsMayComeInPieces(_ version: TLSVersion) throws {
        let whole = try world { ($0.oldest, $0.newest) = (version, version) }
        _ = whole.client.start(whole.clientSocket)
        let helloBytes = whole.sentByClient().count
        for cut in 1..<helloBytes {
            let world = try world { ($0.oldest, $0.newest) = (version, version) }
            _ = world.client.start(world.clientSocket)
            let hello = world.sentByClient()
            world.toServer(hello[..<min(cut, hello.count - 1)])
            #expect(world.sentByServer().isEmpty)
            #expect(world.serverResult == .wouldBlock)
            world.toServer(hello[min(cut, hello.count - 1)...])
            world.toClient(world.sentByServer()[...])
            world.settle()
            #expect(world.server.isEstablished, "cut at \(cut) of \(helloBytes)")
        }
        let dribbled = try world { ($0.oldest, $0.newest) = (version, version) }
        _ = dribbled.client.start(dribbled.clientSocket)
        while !dribbled.server.isEstablished {
            let flight = dribbled.sentByClient()
            try #require(!flight.isEmpty)
            for index in flight.indices { dribbled.toServer(flight[index...index]) }
            let answer = dribbled.sentByServer()
            for index in answer.indices { dribbled.toClient(answer[index...index]) }
        }
        #expect(seal("x", dribbled.client) && dribbled.client.send(dribbled.clientSocket) == .all)
        for byte in dribbled.sentByClient() { dribbled.toServer([byte]) }
        #expect(dribbled.serverRead == Array("x".utf8))
    }

    /// A record in pieces that each give no plaintext, and several records in one piece.
    @Test func recordsMayComeInPieces() throws {
        let world = try world()
        world.settle()
        for cut in 1..<40 {
            #expect(seal("first\(cut)", world.client) && seal("second\(cut)", world.client))
            #expect(world.client.send(world.clientSocket) == .all)
            let bytes = world.sentByClient()
            #expect(world.server.heldBytes == 0)
            world.toServer(bytes[..<cut])
            // The second record is a byte longer than the first.
            let isBetween = cut == (bytes.count - 1) / 2
            #expect(world.server.heldBytes == (isBetween ? 0 : TLSSession.heldBytesMax), "\(cut) of \(bytes.count)")
            world.toServer(bytes[cut...])
        }
        #expect(world.server.heldBytes == 0)
        #expect(String(decoding: world.serverRead, as: UTF8.self) == (1..<40).map { "first\($0)second\($0)" }.joined())
    }

    @Test(arguments: [("GET / HTTP/1.1\r\n\r\n", TLSFailure.plainHTTP), ("\u{1}\u{2}", .notTLS), ("ssh-2.0", .notTLS)])
    func strangersAreTold(_ words: String, _ failure: TLSFailure) throws {
        let world = try world()
        world.toServer(Array(words.utf8)[...])
        #expect(world.server.failure == failure)
        #expect(world.serverResult == .failed(EPROTO))
        #expect(world.sentByServer().isEmpty)
    }

    @Test(arguments: [
        (TLSVersion.tls10, TLSVersion.tls11, "ALL:@SECLEVEL=0"), (.tls12, .tls12, "AES128-SHA:@SECLEVEL=0"),
        (.tls12, .tls12, "ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0"),
        (.tls12, .tls12, "DHE-RSA-AES128-GCM-SHA256:@SECLEVEL=0"),
        (.tls12, .tls12, "AECDH-AES128-SHA:@SECLEVEL=0"),
    ])
    func weakProtocolsAreRefused(_ oldest: TLSVersion, _ newest: TLSVersion, _ suites: String) throws {
        let world = try world {
            ($0.oldest, $0.newest) = (oldest, newest)
            $0.suites = suites
        }
        world.settle()
        #expect(!world.server.isEstablished)
        #expect(world.server.failure == .noneInCommon)
        #expect(world.client.failure != nil, "it has been told by an alert")
        #expect(ERR_peek_error() == 0)
    }

    @Test(arguments: [
        ([], true), (["http/1.1"], true), (["h2", "http/1.1"], true), (["h2"], false), (["spdy/3", "h2"], false),
        (["http/1.10"], false), (["http/1."], false),
    ])
    func onlyHTTPIsSpoken(_ offered: [String], _ isTaken: Bool) throws {
        let world = try world { $0.protocols = offered }
        world.settle()
        #expect(world.server.isEstablished == isTaken)
        #expect(world.server.failure == (isTaken ? nil : .noProtocol))
        guard isTaken, !offered.isEmpty else { return }
        let chosen = world.client.withOpenSSL { ssl -> String in
            var name: UnsafePointer<UInt8>?
            var count: UInt32 = 0
            SSL_get0_alpn_selected(ssl, &name, &count)
            return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
        }
        #expect(chosen == "http/1.1")
    }

    /// A renegotiation requested by a TLS 1.2 client is never begun; the session goes on or ends.
    @Test func noHandshakeFollowsTheFirst() throws {
        let world = try world { $0.newest = .tls12 }
        world.settle()
        world.client.withOpenSSL { ssl in
            _ = SSL_renegotiate(ssl)
            _ = SSL_do_handshake(ssl)
        }
        ERR_clear_error()
        _ = world.client.send(world.clientSocket)
        let hello = world.sentByClient()
        #expect(!hello.isEmpty)
        world.toServer(hello[...])
        let answer = world.sentByServer()
        #expect(answer.count < 100, "an alert, and no flight of a handshake")
        #expect(answer.first == 0x15)
    }

    /// A hello that announces an excessive length ends the handshake before OpenSSL allocates that much. This holds for the
    /// first hello, and for the one requested after a wrong group guess.
    @Test(arguments: [false, true], [0, 1]) func aHelloIsBounded(isSecond: Bool, past: Int) throws {
        let world = try world()
        if isSecond {
            offerGroups("P-521:P-256", world.client)
            _ = world.client.start(world.clientSocket)
            world.toServer(world.sentByClient()[...])
            #expect(!world.sentByServer().isEmpty, "another hello is asked for")
        }
        let length = ClientHelloLimit.helloBytesMax + past
        world.toServer([0x16, 3, 1, 0, 4, 1, UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff)])
        #expect(world.server.failure == (past == 0 ? nil : .longHello))
        #expect(world.serverResult == (past == 0 ? .wouldBlock : .failed(EPROTO)))
        #expect(ERR_peek_error() == 0)
    }

    @Test func anotherHelloMayBeAskedFor() throws {
        let world = try world()
        offerGroups("P-521:P-256", world.client)
        world.settle()
        #expect(world.server.isEstablished && world.client.isEstablished)
    }

    private func offerGroups(_ names: String, _ client: TLSSession) {
        client.withOpenSSL { ssl in
            var names = Array(names.utf8CString)
            _ = SSL_ctrl(ssl, SSL_CTRL_SET_GROUPS_LIST, 0, &names)
        }
    }

    /// The bound of key updates is per read. Nothing after one too many is handled.
    @Test func keyUpdatesAreBounded() throws {
        let world = try world { $0.oldest = .tls13 }
        world.settle()
        func ask(_ count: Int) {
            for _ in 0..<count { updateKeys(world.client) }
            #expect(seal("after", world.client) && world.client.send(world.clientSocket) == .all)
            world.toServer(world.sentByClient()[...])
        }
        for round in 1...3 {
            ask(TLSSession.keyUpdatesMax)
            #expect(world.server.failure == nil)
            #expect(world.serverRead.count == 5 * round)
            world.toClient(world.sentByServer()[...])
            #expect(seal("answer", world.server) && world.server.send(world.serverSocket) == .all)
            world.toClient(world.sentByServer()[...])
            #expect(world.clientRead.count == 6 * round, "under the new keys")
        }
        #expect(seal("none", world.client) && world.client.send(world.clientSocket) == .all)
        world.toServer(world.sentByClient()[...])
        #expect(world.server.keyUpdates == 0, "of the latest read")
        let answers = world.sentByServer()
        ask(1_000)
        #expect(world.server.keyUpdates == TLSSession.keyUpdatesMax + 1)
        #expect(world.server.failure == .malformed)
        #expect(world.serverResult == .failed(EPROTO))
        #expect(world.serverRead.count == 5 * 3 + 4)
        #expect(answers.isEmpty && world.sentByServer().count < 30 * (TLSSession.keyUpdatesMax + 1))
        #expect(ERR_peek_error() == 0)
    }

    private func updateKeys(_ client: TLSSession) {
        client.withOpenSSL { ssl in
            _ = SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
            _ = SSL_do_handshake(ssl)
        }
    }

    /// A peer may request key updates for ever, a few at a time, and read none of the answers.
    @Test func answersToKeyUpdatesAreBounded() throws {
        let world = try world { $0.oldest = .tls13 }
        world.settle()
        var small: Int32 = 1
        setsockopt(world.serverSocket, SOL_SOCKET, SO_SNDBUF, &small, 4)
        var rounds = 0
        while world.server.failure == nil, case .wouldBlock = world.serverResult, rounds < 20_000 {
            rounds += 1
            updateKeys(world.client)
            _ = world.client.send(world.clientSocket)
            world.toServer(world.sentByClient()[...])
        }
        #expect(rounds < 20_000)
        #expect(world.server.unsentBytes <= TLSSession.unsentBytesMax)
        #expect(ERR_peek_error() == 0)
    }

    /// A client with little memory asks for records of 512 bytes (RFC 6066 §4): it gets the same bytes in smaller records.
    @Test(arguments: [TLSVersion.tls12, .tls13])
    func smallRecordsAreMadeForWhoAsksForThem(_ version: TLSVersion) throws {
        let world = try world { ($0.oldest, $0.newest) = (version, version) }
        world.client.withOpenSSL { _ = SSL_set_tlsext_max_fragment_length($0, UInt8(TLSEXT_max_fragment_length_512)) }
        world.settle()
        var random = SeededRandom()
        var sent: [UInt8] = []
        // As many as are sealed before they are sent.
        while !world.server.isWireFull {
            let bytes = random.bytes(TLSWire.recordBytes)
            try #require(bytes.withUnsafeBytes { world.server.seal($0) })
            sent += bytes
        }
        #expect(world.server.send(world.serverSocket) == .all)
        let ciphertext = world.sentByServer()
        #expect(Int(ciphertext[3]) << 8 | Int(ciphertext[4]) < 600)
        for start in stride(from: 0, to: ciphertext.count, by: 40_000) {
            world.toClient(ciphertext[start..<min(ciphertext.count, start + 40_000)])
        }
        #expect(world.clientRead == sent, "seed \(random.seed)")
    }

    /// All sessions of a loop share its wire: output sealed by a session that fails must not reach another's peer.
    @Test func aBrokenSessionLeavesNothingToTheNext() throws {
        let broken = try world()
        broken.settle()
        let other = try world()
        other.settle()
        #expect(seal("of the first", broken.server))
        broken.server.withOpenSSL { SSL_set_shutdown($0, SSL_SENT_SHUTDOWN) }
        #expect(!seal("more", broken.server))
        #expect(seal("of the other", other.server) && other.server.send(other.serverSocket) == .all)
        other.settle()
        #expect(other.clientRead == Array("of the other".utf8))
        #expect(ERR_peek_error() == 0)
    }

    @Test func aSocketThatTakesNothingLeavesNothingToTheNext() throws {
        let blocked = try world()
        blocked.settle()
        let other = try world()
        other.settle()
        var small: Int32 = 1
        setsockopt(blocked.serverSocket, SOL_SOCKET, SO_SNDBUF, &small, 4)
        var sent: [UInt8] = []
        var random = SeededRandom()
        repeat {
            let bytes = random.bytes(TLSWire.recordBytes)
            try #require(bytes.withUnsafeBytes { blocked.server.seal($0) })
            sent += bytes
        } while blocked.server.send(blocked.serverSocket) == .all
        let unsent = blocked.server.unsentBytes
        #expect(unsent > 0)
        // Sealed while other output still waits, as a close_notify is.
        #expect(seal("last", blocked.server) && blocked.server.send(blocked.serverSocket) == .blocked)
        #expect(blocked.server.unsentBytes > unsent)
        sent += Array("last".utf8)
        #expect(seal("of the other", other.server) && other.server.send(other.serverSocket) == .all)
        other.settle()
        #expect(other.clientRead == Array("of the other".utf8))
        while blocked.server.hasUnsent {
            blocked.toClient(blocked.sentByServer()[...])
            _ = blocked.server.send(blocked.serverSocket)
        }
        blocked.toClient(blocked.sentByServer()[...])
        #expect(blocked.server.unsentBytes == 0)
        #expect(blocked.clientRead == sent, "seed \(random.seed)")
    }

    @Test func aFarewellIsReadAsTheEnd() throws {
        let world = try world()
        world.settle()
        #expect(seal("last", world.client) && world.client.send(world.clientSocket) == .all)
        world.client.finishSending(world.clientSocket)
        let bytes = world.sentByClient()
        world.toServer(bytes[...])
        #expect(world.serverRead == Array("last".utf8))
        #expect(world.server.hasEnded)
        world.server.finishSending(world.serverSocket)
        world.toClient(world.sentByServer()[...])
        #expect(world.clientResult == .endOfStream)
    }

    /// Ends of the stream, and changed bytes, in every state.
    @Test func whatIsChangedOnItsWayEndsTheSession() throws {
        var random = SeededRandom()
        for _ in 0..<200 {
            let world = try world { $0.newest = Bool.random(using: &random) ? .tls12 : .tls13 }
            _ = world.client.start(world.clientSocket)
            var flight = world.sentByClient()
            let isFirst = Bool.random(using: &random)
            if !isFirst {
                world.toServer(flight[...])
                world.toClient(world.sentByServer()[...])
                flight = world.sentByClient()
            }
            guard !flight.isEmpty else { continue }
            let index = Int.random(in: 0..<flight.count, using: &random)
            flight[index] ^= UInt8.random(in: 1...255, using: &random)
            world.toServer(flight[...])
            world.toClient(world.sentByServer()[...])
            world.toServer(world.sentByClient()[...])
            // Some bytes of a hello are the client's choice; then the client detects the change.
            #expect(
                !(world.server.isEstablished && world.client.isEstablished && !isFirst) || world.server.failure == nil,
                "seed \(random)")
            #expect(ERR_peek_error() == 0)
        }
    }

    private func seal(_ text: String, _ session: TLSSession) -> Bool {
        Array(text.utf8).withUnsafeBytes { session.seal($0) }
    }
}
