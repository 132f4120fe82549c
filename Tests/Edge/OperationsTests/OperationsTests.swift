import Clock
import Foundation
import Metrics
import Reactor
import Synchronization
import Testing

@testable import Operations

@Suite(.timeLimit(.minutes(15))) struct OperationsTests {
    /// A source with a text of any length.
    private struct Counted: MetricSource {
        var families = 1

        func append(to exposition: inout Exposition) {
            for _ in 0..<families { exposition.counter("things_total", "Things.", 42) }
        }
    }

    private func withServer(
        _ health: Health = Health(), _ source: Counted = Counted(),
        exchangeTime: Duration = OperationsLimits.exchangeTime, _ body: (UInt16) async throws -> Void
    ) async throws {
        let server = try OperationsServer(
            on: ListeningSocket(host: "127.0.0.1", port: 0), health: health, sources: [source],
            exchangeTime: exchangeTime)
        try await server.serves(body)
    }

    @Test func readyFromTheFirstCatchUpToTheEnd() async throws {
        let health = Health()
        let hasCaughtUp = Locked(false)
        try await withServer(health) { (port: UInt16) async throws in
            func readiness() async throws -> String {
                let answer = try await Visitor.ask(port, "/readyz")
                return "\(answer.status) \(answer.body)"
            }
            #expect(try await readiness() == "503 starting\n")
            let warning = Locked<StaticString?>("ok, but\n")
            health.serves(
                on: [], awaited: { hasCaughtUp.withLock { $0 } ? nil : "waiting for the database\n" },
                warning: { warning.withLock { $0 } })
            #expect(try await readiness() == "503 waiting for the database\n")
            hasCaughtUp.withLock { $0 = true }
            #expect(try await readiness() == "200 ok, but\n")
            warning.withLock { $0 = nil }
            #expect(try await readiness() == "200 ok\n")
            #expect(try await Visitor.ask(port, "/livez").status == 200)
            health.drains()
            #expect(try await readiness() == "503 draining\n")
            #expect(try await Visitor.ask(port, "/livez").status == 200)
        }
    }

    @Test func aStuckLoopIsNotAlive() async throws {
        let health = Health(stuckAfter: EventLoop.pulse + .milliseconds(250))
        let (entered, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let handle = try LoopHandle()
        let mailbox = Mailbox<Bool>(handle)
        let thread = try LoopThread(name: "stuck", handle: handle) { loop in
            loop.attach(mailbox) { _ in
                entered.signal()
                release.wait()
            }
            return nil
        }
        health.serves(on: [handle]) { nil }
        try await withServer(health) { port in
            func until(_ status: Int) async throws {
                while try await Visitor.ask(port, "/livez").status != status { await Task.yield() }
            }
            try await until(200)
            mailbox.post(true)
            try await until(503)
            #expect(try await Visitor.ask(port, "/livez").body == "a loop is stuck\n")
            #expect(try await Visitor.ask(port, "/readyz").status == 200, "readiness is another matter")
            release.signal()
            try await until(200)
        }
        entered.wait()
        thread.stopAndJoin()
        #expect(health.ailment(at: Instant.read().advanced(by: .seconds(60))) == nil, "it was told to stop")
    }

    /// Worst interleaving: the hub is relieved between the accept and the request. The check is of this hub then, and a
    /// reset would take it, and the next one, out of a balancer.
    @Test func aVisitorThatWasAcceptedIsAnsweredByAHubThatAcceptsNoMore() async throws {
        let server = try Self.server()
        defer { server.stop() }
        let late = try await Self.visitorInTheMiddle(of: server)
        server.accepts(false)
        try late.send("Host: here\r\n\r\n")
        #expect(try await late.rest().hasPrefix("HTTP/1.1 200 "))
        // One that comes meanwhile waits, and is answered when the hub accepts again.
        let early = try Visitor(port: server.port)
        try early.send("GET /livez HTTP/1.1\r\nHost: here\r\n\r\n")
        server.accepts(true)
        #expect(try await early.rest().hasPrefix("HTTP/1.1 200 "))
    }

    @Test func aVisitorThatWasAcceptedIsAnsweredBeforeTheEnd() async throws {
        let server = try Self.server()
        let late = try await Self.visitorInTheMiddle(of: server)
        async let end: Void = Self.end(server)
        try late.send("Host: here\r\n\r\n")
        #expect(try await late.rest().hasPrefix("HTTP/1.1 200 "))
        // The server waits for the visitor's own end.
        shutdown(late.descriptor, Int32(SHUT_RDWR))
        await end
    }

    private static func server() throws -> OperationsServer {
        try OperationsServer(
            on: ListeningSocket(host: "127.0.0.1", port: 0), health: Health(), sources: [], exchangeTime: .seconds(600))
    }

    /// A visitor that was accepted, and has sent half of its request.
    private static func visitorInTheMiddle(of server: OperationsServer) async throws -> Visitor {
        let visitor = try Visitor(port: server.port)
        try visitor.send("GET /livez HTTP/1.1\r\n")
        // Accepted after the first one.
        #expect(try await Visitor.ask(server.port, "/livez").status == 200)
        return visitor
    }

    private static func end(_ server: OperationsServer) async {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                server.stop(within: .seconds(600))
                continuation.resume()
            }
        }
    }

    @Test func aLoopWithNothingToDoTurns() throws {
        let handle = try LoopHandle()
        let made = Instant.read()
        let health = Health()
        health.serves(on: [handle]) { nil }
        #expect(health.ailment(at: made.advanced(by: .seconds(1))) == nil, "it has just been made")
        #expect(health.ailment(at: made.advanced(by: .seconds(3))) != nil, "it never ran")
        let loop = try EventLoop(handle: handle)
        loop.tick(waitingAtMost: .zero)
        #expect(health.ailment(at: Instant.read().advanced(by: .milliseconds(1_900))) == nil)
        #expect(health.ailment(at: Instant.read().advanced(by: .milliseconds(2_100))) != nil)
    }

    /// A page elsewhere whose name leads here (DNS rebinding) is told nothing, and the target's host counts before the
    /// field's. Health stays open to balancers, which name whom they like.
    @Test func metricsAreNotForPagesElsewhere() async throws {
        try await withServer { port in
            let foreign = [
                "evil.example", "1.2.3.example", "1.2.3", "127.0.0.1.evil.example", "evil.example:\(port)",
                "localhost.evil.example",
            ]
            let own = ["127.0.0.1:\(port)", "localhost", "[::1]:9601", "10.1.2.3:9601", "[fe80::1]"]
            let asked =
                foreign.map { ("/metrics", $0, 403) } + foreign.map { ("/livez", $0, 200) }
                + own.map { ("/metrics", $0, 200) } + [
                    ("http://evil.example/metrics", "127.0.0.1", 403),
                    ("http://localhost/metrics", "evil.example", 200),
                ]
            for (path, host, wanted) in asked {
                let status = try await Visitor.ask(port, path, host: host).status
                #expect(status == wanted, "\(path) of \(host)")
            }
        }
    }

    @Test func metricsAreText() async throws {
        try await withServer { port in
            let answer = try await Visitor.ask(port, "/metrics")
            #expect(answer.status == 200)
            #expect(answer.head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
            #expect(answer.body.hasSuffix("carillon_things_total 42\n"))
            let head = try await Visitor.ask(port, "/metrics", method: "HEAD")
            #expect(head.body.isEmpty)
            #expect(head.head.contains("Content-Length: \(answer.body.utf8.count)\r\n"))
        }
    }

    /// Far more than a socket takes at once, for a client that begins to read late.
    @Test func longTextsComeWhole() async throws {
        let families = 60_000
        try await withServer(Health(), Counted(families: families), exchangeTime: .seconds(600)) { port in
            let answer = try await Visitor.ask(port, "/metrics")
            #expect(answer.body.split(separator: "\n").count == families * 3)
        }
    }

    @Test func whatItDoesNotHaveIsRefused() async throws {
        try await withServer { port in
            #expect(try await Visitor.ask(port, "/").status == 404)
            #expect(try await Visitor.ask(port, "/metrics/").status == 404)
            let post = try await Visitor.ask(port, "/metrics", method: "POST")
            #expect(post.status == 405)
            #expect(post.head.contains("Allow: GET, HEAD"))
            #expect(try await Visitor.ask(port, "/livez", method: "OPTIONS").status == 405)
            let garbage = try Visitor(port: port)
            try garbage.send("nonsense\r\n\r\n")
            #expect(try await garbage.rest().hasPrefix("HTTP/1.1 400 "))
            let body = try Visitor(port: port)
            try body.send("GET /livez HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\n\r\nx")
            #expect(try await body.rest().hasPrefix("HTTP/1.1 413 "))
            let long = try Visitor(port: port)
            try long.send("GET /livez HTTP/1.1\r\nHost: here\r\nA: \(String(repeating: "a", count: 9_000))")
            #expect(try await long.rest().hasPrefix("HTTP/1.1 431 "))
            let bytewise = try Visitor(port: port)
            for byte in "GET /livez HTTP/1.1\r\nHost: here\r\n\r\n" { try bytewise.send(String(byte)) }
            #expect(try await bytewise.rest().hasSuffix("\r\n\r\nok\n"))
        }
    }

    /// At the bound and past it: a newcomer is served, and the oldest connection is closed. Tested in every state, since
    /// each could be held open to keep others out.
    @Test(arguments: ["", "GET /liv", "GET /livez HTTP/1.0\r\n\r\n", "GET /metrics HTTP/1.0\r\n\r\n"])
    func atTheBoundTheOldestGoes(said: String) async throws {
        try await withServer(Health(), Counted(families: 10_000), exchangeTime: .seconds(600)) { port in
            let idlers = try (0..<OperationsLimits.connectionsMax).map { _ in
                let visitor = try Visitor(port: port)
                try visitor.send(said)
                return visitor
            }
            #expect(try await Visitor.ask(port, "/livez").status == 200)
            #expect(try await Visitor.ask(port, "/metrics").status == 200)
            _ = try await idlers[0].rest()
            guard said.isEmpty, let youngest = idlers.last else { return }
            try youngest.send("GET /livez HTTP/1.0\r\n\r\n")
            #expect(try await youngest.rest().hasSuffix("ok\n"), "those who came later stayed")
        }
    }

    /// Silent clients are closed after their timeout.
    @Test func connectionsAreBoundedInTime() async throws {
        try await withServer { port in
            let silent = try (0..<OperationsLimits.connectionsMax).map { _ in try Visitor(port: port) }
            for visitor in silent { #expect(try await visitor.rest().isEmpty) }
            #expect(try await Visitor.ask(port, "/livez").status == 200)
        }
    }
}
