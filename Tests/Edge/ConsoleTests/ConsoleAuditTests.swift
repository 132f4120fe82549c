import Bytes
import Gateway
import HTTP
import HubEngine
import Logging
import Operations
import Reactor
import TestHub
import TestSupport
import Testing

@testable import Console

/// Each look at a payload has its line in the log, and so has what is done by hand.
@Suite(.timeLimit(.minutes(15))) struct ConsoleAuditTests {
    /// Keeps what is at its level.
    private struct Handler: LogHandler {
        let lines: KeptLines
        var logLevel: Logger.Level
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.log(event: event) }
    }

    private struct NoRoutes: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? { .problem(.notFound, "Nothing.") }
    }

    private let lines = KeptLines()
    private static let credential = "a credential of thirty-two bytes."

    private func console(_ level: Logger.Level, showsPayloads: Bool) -> Console {
        let logger = Logger(label: "test") { [lines] _ in Handler(lines: lines, logLevel: level) }
        return Console(
            .init(credential: Self.credential, showsPayloads: showsPayloads), version: "1", logger: logger)
    }

    /// The answer's text.
    private func post(
        _ target: String, _ body: String = "", credential: String = credential, to console: Console
    ) async throws -> String {
        var bytes = Array(
            ("POST \(target) HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.utf8.count)\r\n"
                + "Authorization: Bearer \(credential)\r\n\r\n\(body)").utf8)
        let peer = try #require(Array("10.1.2.3".utf8).withUnsafeBytes { PeerAddress($0) })
        return try await withCheckedThrowingContinuation { continuation in
            bytes.withUnsafeMutableBytes { bytes in
                var parser = RequestParser()
                do {
                    let request = try #require(try parser.parse(bytes))
                    console.answer(request, from: peer) { answer in
                        continuation.resume(
                            returning: answer().withUnsafeBytes { String(decoding: $0, as: UTF8.self) })
                    }
                } catch {
                    continuation.resume(throwing: error)
                }
            }
        }
    }

    /// The hub has no database: a look is logged before that is known. Whatever the log leaves out otherwise.
    @Test(arguments: [Logger.Level.trace, .notice, .critical])
    func eachLookIsLogged(_ level: Logger.Level) async throws {
        let hub = try await GatewayFixture(loops: 1, routes: { _, _ in NoRoutes() })
        let console = console(level, showsPayloads: true)
        console.serves(hub.gateway)
        let look = "/console/api/payload?channel=private-user.7.adherence&offset=3"
        #expect(try await post(look, to: console).hasPrefix("HTTP/1.1 404"))
        #expect(
            lines.all == ["console: a payload is looked at offset=3 channel=user.7.adherence by=10.1.2.3 "])
        let body = #"{"name":"kind","channels":["news","more"],"data":"words of an event"}"#
        #expect(try await post("/console/api/publish?app=1", body, to: console).hasPrefix("HTTP/1.1 200"))
        #expect(
            lines.all.dropFirst() == ["console: an event is published channels=2 bytes=17 by=10.1.2.3 app=1 "])
        let end = "/console/api/terminate?app=1&user=somebody"
        #expect(try await post(end, to: console).hasSuffix("{\"ended\": 0}\n"))
        #expect(
            lines.all.dropFirst(2) == ["console: a user's connections are ended user=somebody by=10.1.2.3 app=1 "])
        #expect(try await post("/console/api/terminate?app=2&user=somebody", to: console).hasPrefix("HTTP/1.1 404"))
        #expect(lines.all.count == 3)
    }

    @Test func whatIsRefusedIsNoLook() async throws {
        let hub = try await GatewayFixture(loops: 1, routes: { _, _ in NoRoutes() })
        let console = console(.info, showsPayloads: false)
        console.serves(hub.gateway)
        let look = "/console/api/payload?channel=user.7.adherence&offset=3"
        #expect(try await post(look, to: console).hasPrefix("HTTP/1.1 403"))
        #expect(lines.all.isEmpty)
        // One line for many guesses.
        for _ in 0..<3 {
            #expect(try await post(look, credential: "guess", to: console).hasPrefix("HTTP/1.1 401"))
        }
        let end = "/console/api/terminate?app=1&user=somebody"
        #expect(try await post(end, credential: "guess", to: console).hasPrefix("HTTP/1.1 401"))
        #expect(lines.all == ["console: credentials refused latest=10.1.2.3 count=1 "])
    }

    /// A hub that starts answers so.
    @Test func itWaitsForTheHub() async throws {
        let console = console(.info, showsPayloads: true)
        let look = "/console/api/payload?channel=user.7.adherence&offset=3"
        #expect(try await post(look, to: console).hasPrefix("HTTP/1.1 503"))
        #expect(lines.all.isEmpty)
    }
}
