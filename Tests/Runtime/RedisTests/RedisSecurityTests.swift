import Reactor
import Redis
import TestRedis
import TestSupport
import Testing

/// TLS: who the server is, and who the client is.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RedisSecurityTests {
    /// A server with a certificate for one name.
    private struct Secured {
        let folder: CertificateFolder
        let server: RedisServer
        let roots: String
        let client: CertificateFolder.Pair

        init(host: String = "localhost", asks: Bool = false) throws {
            folder = try CertificateFolder()
            let pair = try folder.make("server", hosts: [host])
            client = try folder.make("client", hosts: ["client"])
            roots = pair.certificate
            server = try RedisServer(tls: [
                "--tls-cert-file", pair.certificate, "--tls-key-file", pair.key, "--tls-ca-cert-file",
                client.certificate, "--tls-auth-clients", asks ? "yes" : "no",
            ])
        }

        var url: String { "rediss://localhost:\(server.tlsPort)" }
    }

    @Test func commandsArePipelinedInside() throws {
        let secured = try Secured()
        let world = try RedisWorld(up: secured.url) { $0.rootsFile = secured.roots }
        let value = [UInt8](repeating: UInt8(ascii: "x"), count: 3 << 20)
        var replies: [RedisReply] = []
        #expect(world.client.send(bytes(["SET", "k"]) + [value]) { replies.append($0) } == .taken)
        for _ in 0..<2_000 { #expect(world.send("INCR n") { replies.append($0) } == .taken) }
        #expect(world.send("GET k") { replies.append($0) } == .taken)
        try world.run { world.client.unansweredCount == 0 }
        #expect(replies == [ok()] + (1...2_000).map { .value(.integer($0)) } + [.value(.bytes(value))])
        guard case .value(.push) = try world.subscribe("c") else {
            Issue.record("no confirmation")
            return
        }
        #expect(try world.call("SPUBLISH c m") == .value(.integer(1)))
        try world.run { world.pushes.last == message("c", "m") }
    }

    @Test func aServerThatDiesIsFoundInside() throws {
        let secured = try Secured()
        let world = try RedisWorld(up: secured.url) { $0.rootsFile = secured.roots }
        secured.server.pause()
        var ends = 0
        for _ in 0..<100 { #expect(world.send("PING") { ends += $0 == .lost ? 1 : 100_000 } == .taken) }
        world.turn()
        try secured.server.restart()
        try world.run { world.opened == [1, 2] }
        #expect(ends == 100 && world.lost.map(\.kind) == [.lost])
    }

    @Test func theClientShowsItsCertificate() throws {
        let secured = try Secured(asks: true)
        let files = TLSCertificateFiles(certificate: secured.client.certificate, key: secured.client.key)
        let world = try RedisWorld(up: secured.url) {
            $0.rootsFile = secured.roots
            $0.identity = files
        }
        #expect(try world.call("PING") == ok("PONG"))
        let bare = try RedisWorld(secured.url) { $0.rootsFile = secured.roots }
        try bare.run { !bare.failed.isEmpty }
        #expect(bare.kinds.first == .tls && bare.opened.isEmpty, "\(bare.failed)")
        #expect(bare.failed.first?.detail.contains("certificate") == true)
    }

    @Test func anotherNameIsRefused() throws {
        let secured = try Secured(host: "redis.test")
        let world = try RedisWorld(secured.url) { $0.rootsFile = secured.roots }
        try world.run { !world.failed.isEmpty }
        #expect(world.kinds.first == .untrusted && world.opened.isEmpty)
        // The name that sent it there is the one that counts, not the address.
        let address = try RedisWorld("rediss://127.0.0.1:\(secured.server.tlsPort)") { $0.rootsFile = secured.roots }
        try address.run { !address.failed.isEmpty }
        #expect(address.kinds.first == .untrusted)
    }

    @Test func anotherRootIsRefused() throws {
        let secured = try Secured()
        for roots in [secured.client.certificate, nil] {
            let world = try RedisWorld(secured.url) { $0.rootsFile = roots }
            try world.run { !world.failed.isEmpty }
            #expect(world.kinds.first == .untrusted && world.opened.isEmpty)
        }
    }

    @Test func aPortWithoutTLSIsTold() throws {
        let secured = try Secured()
        let world = try RedisWorld("rediss://localhost:\(secured.server.port)") {
            $0.rootsFile = secured.roots
            $0.connectTimeout = .seconds(2)
        }
        try world.run { !world.failed.isEmpty }
        #expect([.tls, .timeout].contains(world.kinds.first), "\(world.failed)")
        #expect(world.failed.first?.detail.contains("write redis://") == true, "\(world.failed)")
    }

    @Test func aPortWithTLSIsTold() throws {
        let secured = try Secured()
        let world = try RedisWorld("redis://localhost:\(secured.server.tlsPort)") { $0.connectTimeout = .seconds(5) }
        try world.run { !world.failed.isEmpty }
        #expect([.tls, .lost].contains(world.kinds.first), "\(world.failed)")
        #expect(world.failed.first?.detail.contains("write rediss://") == true, "\(world.failed)")
    }

    @Test func filesThatAreMissingAreNamed() throws {
        let folder = try CertificateFolder()
        let error = #expect(throws: TLSError.self) {
            _ = try RedisWorld("rediss://localhost") { $0.rootsFile = folder.file("none.pem") }
        }
        #expect(error?.description.contains("none.pem") == true)
        let pair = try folder.make("a", hosts: ["a"])
        let other = try folder.make("b", hosts: ["b"])
        #expect(throws: TLSError.self) {
            _ = try RedisWorld("rediss://localhost") {
                $0.rootsFile = pair.certificate
                $0.identity = TLSCertificateFiles(certificate: pair.certificate, key: other.key)
            }
        }
    }
}
