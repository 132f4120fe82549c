import Glibc
import HubEngine
import Reactor
import TestHub
import TestSupport
import Testing
import WebSocket

@testable import Gateway

/// Connections that are closed while the hub lives, and accepting that rests.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ConnectionDrainTests {
    private func clients(_ count: Int, _ fixture: GatewayFixture) async throws -> [TestClient] {
        var clients: [TestClient] = []
        for _ in 0..<count { clients.append(try await TestClient.opened(port: fixture.port).0) }
        return clients
    }

    private func lives(_ client: TestClient) async throws -> Bool {
        try await client.send(#"{"event":"pusher:ping","data":{}}"#)
        return try await client.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#)
    }

    @Test(arguments: [(true, UInt16(4200)), (false, 1001)])
    func clientsAreToldWhenToComeBack(_ hasSuccessor: Bool, _ code: UInt16) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let clients = try await clients(12, fixture)
        fixture.gateway.drain(DrainOrder(perSecond: 1_000, hasSuccessor: hasSuccessor))
        for client in clients {
            #expect(try await client.next() == .close(code))
            try await client.send(Opcode.close, [UInt8(code >> 8), UInt8(code & 0xFF)])
        }
        #expect(eventually { fixture.gateway.connectionCount == 0 })
        #expect(metrics.text.contains("carillon_drain_closings_total 12\n"))
        #expect(metrics.text.contains("carillon_draining 1\n"))
    }

    /// It came after the others had been put in order.
    @Test func oneThatComesLaterIsClosedToo() async throws {
        let fixture = try await GatewayFixture()
        fixture.gateway.drain(DrainOrder(perSecond: 1_000, hasSuccessor: true))
        let silent = try TestClient(port: fixture.port)
        #expect(eventually { fixture.gateway.connectionCount == 1 })
        let (late, _) = try await TestClient.opened(port: fixture.port)
        #expect(try await late.next() == .close(4200))
        // Nobody is closed before the greeting: pusher-js would come back in a loop.
        try await silent.upgrade()
        guard case .text = try await silent.next() else { throw TestClient.Failure(reason: "no greeting") }
        #expect(try await silent.next() == .close(4200))
    }

    @Test func aDrainThatIsTakenBackLeavesTheOthers() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics)
        let clients = try await clients(8, fixture)
        fixture.gateway.drain(DrainOrder(perSecond: 20, hasSuccessor: false))
        #expect(eventually { metrics.drains.closed.count > 0 })
        fixture.gateway.drain(nil)
        var left = 0
        for client in clients {
            try await client.send(#"{"event":"pusher:ping","data":{}}"#)
            if case .text = try await client.next() { left += 1 }
        }
        #expect(left == clients.count - Int(metrics.drains.closed.count))
        #expect(metrics.text.contains("carillon_draining 0\n"))
        let newcomer = try await TestClient.opened(port: fixture.port).0
        #expect(try await lives(newcomer))
    }

    @Test func requestsAreAnsweredAndNoFurtherOnesServed() async throws {
        let fixture = try await GatewayFixture()
        let (idle, busy) = (try TestClient(port: fixture.port), try TestClient(port: fixture.port))
        for client in [idle, busy] {
            try await client.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try await client.response().head.contains("404"))
        }
        try await busy.sendRaw("POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nx")
        #expect(eventually { fixture.holdsRequest })
        fixture.gateway.drain(DrainOrder(perSecond: 1_000, hasSuccessor: true))
        #expect(try await idle.next() == .end)
        try await busy.sendRaw("y")
        let answer = try await busy.response().head
        #expect(answer.hasPrefix("HTTP/1.1 4") && answer.contains("Connection: close"))
        #expect(try await busy.next() == .end)
    }

    @Test func oneThatComesWhileAcceptingRestsWaits() async throws {
        let fixture = try await GatewayFixture()
        let mailboxes = fixture.gateway.context.mailboxes
        let turned = Locked(0)
        /// All loops take what was posted before.
        func takeTurns(_ count: Int) {
            turned.withLock { $0 = 0 }
            for _ in 0..<count {
                for mailbox in mailboxes { mailbox.post(.ask { _ in turned.withLock { $0 += 1 } }) }
            }
            #expect(eventually { turned.withLock { $0 } == count * mailboxes.count })
        }
        fixture.gateway.accepts(false)
        takeTurns(1)
        let waiting = try TestClient(port: fixture.port)
        try await waiting.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
        takeTurns(20)
        #expect(fixture.gateway.connectionCount == 0)
        fixture.gateway.accepts(true)
        #expect(try await waiting.response().head.contains("404"))
    }

    @Test func itTellsWhenAcceptingRests() async throws {
        let fixture = try await GatewayFixture()
        let (hold, rests) = (Locked(true), Locked(false))
        // The accepting loop is busy, and there is a client whom it has accepted, or will.
        fixture.gateway.context.mailboxes[0].post(.ask { _ in while hold.withLock({ $0 }) { sched_yield() } })
        let early = try TestClient(port: fixture.port)
        fixture.gateway.accepts(false) { rests.withLock { $0 = true } }
        #expect(!rests.withLock { $0 }, "it was told so before it was true")
        hold.withLock { $0 = false }
        #expect(eventually { rests.withLock { $0 } })
        fixture.gateway.accepts(true)
        try await early.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await early.response().head.contains("404"))
    }

    @Test func visitorsAreThoseWhoAwaitAnAnswer() async throws {
        let fixture = try await GatewayFixture()
        let gateway = fixture.gateway
        func count() -> UnansweredConnections? {
            let told = Locked<UnansweredConnections?>(nil)
            gateway.countVisitors { visitors in told.withLock { $0 = visitors } }
            _ = eventually { told.withLock { $0 } != nil }
            return told.withLock { $0 }
        }
        let (greeted, _) = try await TestClient.opened(port: fixture.port)
        let (silent, begun, answered) = (
            try TestClient(port: fixture.port), try TestClient(port: fixture.port), try TestClient(port: fixture.port)
        )
        try await begun.sendRaw("GET /nothing HTT")
        try await answered.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = try await answered.response()
        #expect(eventually { count() == UnansweredConnections(silent: 1, begun: 1) })
        // A request after the first counts, too.
        try await answered.sendRaw("GET /nothing HTT")
        #expect(eventually { count() == UnansweredConnections(silent: 1, begun: 2) })
        gateway.drain(DrainOrder(perSecond: nil, hasSuccessor: true))
        #expect(try await greeted.next() == .close(4200))
        #expect(count() == UnansweredConnections(silent: 1, begun: 2), "the drain cut them off")
        for client in [begun, answered] {
            try await client.sendRaw("P/1.1\r\nHost: h\r\n\r\n")
            #expect(try await client.response().head.contains("404"))
        }
        #expect(eventually { count() == UnansweredConnections(silent: 1, begun: 0) })
        try await silent.sendRaw("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await silent.response().head.contains("404"))
        #expect(count() == UnansweredConnections())
    }

    /// Not in that of their coming.
    @Test func theOrderIsRandom() async throws {
        let hub = try await DrivenHub()
        var peers: [DrivenPeer] = []
        for _ in 0..<20 { peers.append(try hub.open()) }
        let drainage = hub.clients[0].drainage
        drainage.follow(DrainOrder(perSecond: 1, hasSuccessor: true))
        drainage.turn()
        let order = drainage.waiting.map(\.slot)
        #expect(order.count == 20)
        #expect(order != order.sorted() && order != order.sorted(by: >))
        drainage.follow(nil)
        withExtendedLifetime(peers) {}
    }

    @Test func aTurnClosesNobodyElse() async throws {
        let hub = try await DrivenHub()
        let peer = try hub.open()
        let drainage = hub.clients[0].drainage
        drainage.follow(DrainOrder(perSecond: 1, hasSuccessor: true))
        drainage.turn()
        let name = try #require(drainage.waiting.last)
        let victim = try #require(try hub.connection(of: peer))
        victim.drop()
        hub.turn()
        // It has the first one's slot.
        let newcomer = try hub.open()
        let connection = try #require(try hub.connection(of: newcomer))
        #expect(connection.slot == name.slot && connection.sessionID != name)
        #expect(hub.loops[0].connection(name) == nil)
    }

    @Test func theEndClosesWhatADrainHasLeft() async throws {
        let fixture = try await GatewayFixture()
        let clients = try await clients(4, fixture)
        fixture.gateway.drain(DrainOrder(perSecond: 1, hasSuccessor: true))
        let gateway = fixture.gateway
        let end = fixture.end(hasSuccessor: true)
        for client in clients { #expect(try await client.next() == .close(4200)) }
        await end.value
        #expect(gateway.connectionCount == 0)
    }
}

extension GatewayFixture {
    /// Whether a request has begun on one of its connections.
    fileprivate var holdsRequest: Bool { metrics.held.unfinishedBytes.level > 0 }
}
