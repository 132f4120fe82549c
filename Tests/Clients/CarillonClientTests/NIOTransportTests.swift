import API
import Crypto
import Foundation
import Gateway
import Identity
import NIOSSL
import Reactor
import TestHub
import TestSupport
import Testing

@testable import CarillonClient

/// The network by swift-nio, on a real hub.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(5))) struct NIOTransportTests {
    private let folder: CertificateFolder
    private let pair: CertificateFolder.Pair

    init() throws {
        folder = try CertificateFolder()
        pair = try folder.make("one", hosts: ["localhost"])
    }

    private func hub(isSecure: Bool = true) async throws -> GatewayFixture {
        let server = try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
        let routes: (GatewayConfiguration, TokenVerifier) -> any HTTPRoutes = { configuration, _ in
            HubRoutes(pusher: PusherRoutes(), users: nil, origins: configuration.origins)
        }
        return try await GatewayFixture(routes: routes) {
            $0.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0), usesTLS: isSecure)]
            if isSecure { $0.tls = server }
        }
    }

    private func address(_ hub: GatewayFixture, _ scheme: String, _ path: String = "/app/key?protocol=7") throws -> URL
    {
        try #require(URL(string: "\(scheme)://localhost:\(hub.port)\(path)"))
    }

    private func pin(_ file: String) throws -> Data {
        let certificate = try #require(try NIOSSLCertificate.fromPEMFile(file).first)
        return Data(SHA256.hash(data: try certificate.extractPublicKey().toSPKIBytes()))
    }

    /// What Apple's systems give is the certificate: its key is found in it as nio-ssl finds it.
    @Test func theKeyOfACertificateIsFound() throws {
        let certificate = try #require(try NIOSSLCertificate.fromPEMFile(pair.certificate).first)
        let bytes = try certificate.toDERBytes()
        let key = try #require(KeyPins.key(of: bytes))
        #expect(Array(key) == (try certificate.extractPublicKey().toSPKIBytes()))
        #expect(try KeyPins([pin(pair.certificate)]).fit(certificate: bytes))
        #expect(try !KeyPins([Data(repeating: 0, count: 32)]).fit(certificate: bytes))
        #expect(throws: CarillonError.invalid("a pin has 32 bytes")) { try KeyPins([Data([1])]) }
        // Whatever is cut off or changed, no byte beyond the end is read.
        for length in 0..<bytes.count { #expect(KeyPins.key(of: Array(bytes.prefix(length))) == nil) }
        for index in bytes.indices.prefix(400) {
            var other = bytes
            other[index] = 0xFF
            _ = KeyPins.key(of: other)
        }
    }

    private func greeting(_ transport: NIOTransport, _ url: URL) async throws -> String {
        let socket = try await transport.connect(to: url)
        defer { socket.close() }
        guard case .text(let text) = await socket.inbox.next().first else { return "" }
        return text
    }

    @Test func anAuthorityMustHaveSigned() async throws {
        let hub = try await hub()
        let url = try address(hub, "wss")
        let trusting = try NIOTransport(.init(authorities: pair.certificate))
        #expect(try await greeting(trusting, url).contains("connection_established"))
        await #expect(throws: CarillonError.self) { try await greeting(try NIOTransport(), url) }
    }

    @Test func oneOfThePinnedKeysMustBeThere() async throws {
        let hub = try await hub()
        let url = try address(hub, "wss")
        let own = try pin(pair.certificate)
        let other = try pin(try folder.make("two", hosts: ["localhost"]).certificate)
        let both = try NIOTransport(.init(pins: [other, own], authorities: pair.certificate))
        #expect(try await greeting(both, url).contains("connection_established"))
        let wrong = try NIOTransport(.init(pins: [other], authorities: pair.certificate))
        await #expect(throws: CarillonError.wrongKey) { try await greeting(wrong, url) }
        await #expect(throws: CarillonError.wrongKey) {
            try await wrong.get(try address(hub, "https", "/"), fields: [:])
        }
        // A pin takes no authority's place.
        await #expect(throws: CarillonError.self) { try await greeting(try NIOTransport(.init(pins: [own])), url) }
        #expect(throws: CarillonError.invalid("a pin has 32 bytes")) { try NIOTransport(.init(pins: [Data([1])])) }
    }

    @Test func messagesGoBothWays() async throws {
        let hub = try await hub(isSecure: false)
        let socket = try await NIOTransport().connect(to: try address(hub, "ws"))
        _ = await socket.inbox.next()
        socket.send(#"{"event":"pusher:ping"}"#)
        #expect(await socket.inbox.next() == [.text(#"{"event":"pusher:pong","data":"{}"}"#)])
        // The hub closes: its code is told, and it is the last.
        let unknown = try await NIOTransport().connect(to: try address(hub, "ws", "/app/nobody?protocol=7"))
        var events: [SocketEvent] = []
        while case let next = await unknown.inbox.next(), !next.isEmpty { events += next }
        guard case .closed(let code, _) = events.last else {
            Issue.record("it is open")
            return
        }
        #expect(code == 4001)
        await hub.end().value
        guard case .closed = await socket.inbox.next().last else {
            Issue.record("it is open")
            return
        }
        #expect(await socket.inbox.next().isEmpty)
    }

    @Test func answersByHTTPAreWhole() async throws {
        let hub = try await hub(isSecure: false)
        let reply = try await NIOTransport().get(try address(hub, "http", "/nothing"), fields: ["X-A": "b"])
        #expect(reply.status == 404)
        await #expect(throws: CarillonError.http(404)) {
            try await NIOTransport().connect(to: try address(hub, "ws", "/nothing"))
        }
        let nowhere = try #require(URL(string: "ws://127.0.0.1:1/"))
        await #expect(throws: CarillonError.self) { try await NIOTransport().connect(to: nowhere) }
    }
}
