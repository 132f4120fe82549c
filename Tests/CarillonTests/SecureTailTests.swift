import Glibc
import Reactor
import TestSupport
import Testing

@testable import carillon

/// `carillon tail` with a hub over TLS.
@Suite(.ownThread, .timeLimit(.minutes(15)))
struct SecureTailTests {
    private let folder: CertificateFolder
    private let pair: CertificateFolder.Pair
    private let hub: RunningCommand
    private let port: String

    init() throws {
        folder = try CertificateFolder()
        pair = try folder.make("hub", hosts: ["localhost"])
        hub = try RunningCommand(
            [
                "serve", "--listen", "tls:127.0.0.1:0", "--operations-listen", "off",
                "--tls-certificate-files", pair.certificate, "--tls-key-files", pair.key,
            ], isMixed: true, environment: ["CARILLON_APPS": #"[{"id": "1", "key": "one", "secret": "s"}]"#])
        let line = try #require(hub.line(containing: #""listening""#))
        port = try String(#require(line.firstMatch(of: /127\.0\.0\.1:(\d+)/)).1)
    }

    private func tail(
        _ host: String, _ options: [String] = [], environment: [String: String] = [:]
    ) throws -> RunningCommand {
        try RunningCommand(
            ["tail", "--url", "wss://\(host):\(port)", "--app-key", "one", "--channel", "news"] + options,
            isMixed: true, environment: environment)
    }

    @Test func judgesTheCertificateByAFile() throws {
        let tail = try tail("localhost", ["--ca-file", pair.certificate])
        #expect(tail.line(containing: "subscribed to news") != nil)
    }

    @Test func judgesTheCertificateByTheSystem() throws {
        // The variable that tells OpenSSL where the system's are.
        let known = try tail("localhost", environment: ["SSL_CERT_FILE": pair.certificate])
        #expect(known.line(containing: "subscribed to news") != nil)
        let unknown = try tail("localhost")
        let told = unknown.rest()
        #expect(told.hasPrefix("carillon: wss://localhost:\(port): the hub's certificate is not good: self"), "\(told)")
        #expect(told.contains("give --ca-file FILE") && told.split(separator: "\n").count == 1)
        #expect(unknown.end() == 1)
    }

    @Test func anotherNameOrRootIsRefused() throws {
        let other = try folder.make("other", hosts: ["localhost"])
        let stranger = try tail("localhost", ["--ca-file", other.certificate])
        #expect(stranger.line(containing: "the hub's certificate is not good")?.contains(other.certificate) == true)
        #expect(stranger.end() == 1)
        let elsewhere = try tail("127.0.0.1", ["--ca-file", pair.certificate])
        #expect(elsewhere.line(containing: "IP address mismatch")?.contains("the name 127.0.0.1") == true)
        #expect(elsewhere.end() == 1)
    }

    /// One that has been connected comes back: somebody may mend the certificate.
    @Test func aCertificateThatTurnsBadIsWaitedFor() throws {
        let tail = try tail("localhost", ["--ca-file", pair.certificate])
        #expect(tail.line(containing: "subscribed to news") != nil)
        let other = try folder.make("hub-other", hosts: ["localhost"])
        for (from, to) in [(other.certificate, pair.certificate), (other.key, pair.key)] {
            #expect(rename(from, to) == 0)
        }
        #expect(hub.stop(SIGTERM) == 0)
        let next = try RunningCommand(
            [
                "serve", "--listen", "tls:127.0.0.1:\(port)", "--operations-listen", "off",
                "--tls-certificate-files", pair.certificate, "--tls-key-files", pair.key,
            ], isMixed: true, environment: ["CARILLON_APPS": #"[{"id": "1", "key": "one", "secret": "s"}]"#])
        #expect(next.line(containing: #""listening""#) != nil)
        #expect(tail.line(containing: "not connected: the hub's certificate is not good") != nil)
        #expect(tail.line(containing: "not connected: the hub's certificate is not good") != nil, "it goes on")
    }

    @Test func theOtherSchemeIsNamed() throws {
        let inTheClear = try RunningCommand(
            ["tail", "--url", "ws://127.0.0.1:\(port)", "--app-key", "one", "--channel", "news"], isMixed: true)
        let advice = "this port speaks TLS: use wss:// in place of ws://"
        #expect(inTheClear.rest() == "carillon: ws://127.0.0.1:\(port): \(advice)\n")
        #expect(inTheClear.end() == 1)

        let plain = try RunningCommand(
            ["serve", "--listen", "127.0.0.1:0", "--operations-listen", "off"], isMixed: true,
            environment: ["CARILLON_APPS": #"[{"id": "1", "key": "one", "secret": "s"}]"#])
        let line = try #require(plain.line(containing: #""listening""#))
        let plainPort = try String(#require(line.firstMatch(of: /127\.0\.0\.1:(\d+)/)).1)
        let secured = try RunningCommand(
            ["tail", "--url", "wss://127.0.0.1:\(plainPort)/", "--app-key", "one", "--channel", "news"], isMixed: true)
        let contrary = "this port does not speak TLS: use ws:// in place of wss://"
        #expect(secured.rest() == "carillon: wss://127.0.0.1:\(plainPort): \(contrary)\n")
        #expect(secured.end() == 1)
    }

    @Test func whatIsWrongWithTheOptionIsSaid() throws {
        let missing = try tail("localhost", ["--ca-file", "/no/such.pem"])
        #expect(missing.line(containing: "--ca-file: /no/such.pem: No such file") != nil)
        let plain = try RunningCommand(
            ["tail", "--url", "ws://127.0.0.1:1", "--app-key", "k", "--channel", "c", "--ca-file", pair.certificate],
            isMixed: true)
        #expect(
            plain.rest() == "carillon: --ca-file is of no use at ws://127.0.0.1:1: did you mean wss://127.0.0.1:1?\n")
        #expect(plain.end() == 1)
    }
}
