import Bytes
import Foundation
import HTTP
import Metrics
import Reactor
import TestSupport
import Testing

@testable import Operations

/// Another part's pages on the operations listener, such as the console.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct OperationsRoutesTests {
    /// Answers when the test says so.
    private final class PlayedRoutes: OperationsRoutes {
        typealias Reply = @Sendable (@escaping @Sendable () -> SharedBytes) -> Void

        let bodyBytesMax = 100
        private let waiting = Locked<[(body: String, reply: Reply)]>([])

        func owns(_ request: ParsedRequest) -> Bool { request.path.hasPrefix("/added") }

        func answer(_ request: ParsedRequest, from peer: PeerAddress, _ reply: @escaping Reply) {
            let body = request.body.string
            guard peer.isLoopback, body != "at once" else { return reply { SharedBytes.copy("at once") } }
            waiting.withLock { $0.append((body, reply)) }
        }

        var count: Int { waiting.withLock { $0.count } }
        var newest: String? { waiting.withLock { $0.last?.body } }

        /// Echoes the body of the oldest one.
        func answerNext() {
            let (body, reply) = waiting.withLock { $0.removeFirst() }
            reply {
                var writer = ByteWriter(capacity: 128)
                writer.append(utf8: body)
                return writer.finish()
            }
        }
    }

    private let routes = PlayedRoutes()

    private func withServer(
        exchangeTime: Duration = .seconds(600), _ body: (UInt16) async throws -> Void
    ) async throws {
        let server = try OperationsServer(
            on: ListeningSocket(host: "127.0.0.1", port: 0), health: Health(), sources: [], routes: routes,
            exchangeTime: exchangeTime)
        try await server.serves(body)
    }

    private func visitor(_ port: UInt16, _ body: String, path: String = "/added") throws -> Visitor {
        let visitor = try Visitor(port: port)
        try visitor.send("POST \(path) HTTP/1.1\r\nHost: here\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        return visitor
    }

    /// While one waits, others are answered.
    @Test func itAnswersNowOrLater() async throws {
        try await withServer { port in
            let late = try visitor(port, "later")
            #expect(eventually { routes.count == 1 })
            #expect(try await Visitor.ask(port, "/livez").status == 200)
            #expect(try await visitor(port, "at once").rest() == "at once")
            routes.answerNext()
            #expect(try await late.rest() == "later")
        }
    }

    @Test func theRestIsAsWithoutIt() async throws {
        try await withServer { (port: UInt16) async throws in
            #expect(try await Visitor.ask(port, "/metrics").status == 200)
            #expect(try await Visitor.ask(port, "/nothing").status == 404)
            #expect(try await visitor(port, "x", path: "/livez").rest().hasPrefix("HTTP/1.1 405 "))
        }
    }

    @Test func aBodyHasABound() async throws {
        try await withServer { port in
            let fits = try visitor(port, String(repeating: "x", count: 100))
            #expect(eventually { routes.count == 1 })
            routes.answerNext()
            #expect(try await fits.rest().utf8.count == 100)
            #expect(try await visitor(port, String(repeating: "x", count: 101)).rest().hasPrefix("HTTP/1.1 413 "))
        }
    }

    /// Worst interleaving: the deadline ends a connection, a newcomer takes its slot, and then the answer comes.
    @Test func aLateAnswerFindsNobody() async throws {
        try await withServer(exchangeTime: .milliseconds(500)) { port in
            let first = try visitor(port, "first")
            #expect(eventually { routes.count == 1 })
            #expect(try await first.rest().isEmpty)
            // On a busy machine the time of the next one may be over too, before it is answered.
            var told = ""
            while told.isEmpty {
                let second = try visitor(port, "second")
                try #require(eventually { routes.newest == "second" })
                while routes.count > 0 { routes.answerNext() }
                told = try await second.rest()
            }
            #expect(told == "second")
        }
    }
}
