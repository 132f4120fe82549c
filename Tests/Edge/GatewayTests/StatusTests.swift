import Clock
import Feed
import HubEngine
import Metrics
import TestHub
import Testing

@testable import Gateway

/// Status messages during an outage, and the gateway's counts, on real sockets.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct StatusTests {
    private static let away =
        #"{"event":"sync:status","data":"{\"degraded\":true,\"reason\":\"database_unavailable\"}"}"#
    private static let back = #"{"event":"sync:status","data":"{\"degraded\":false}"}"#

    @Test func everyConnectionIsToldOfAnOutageOnceAndOfItsEnd() async throws {
        let fixture = try await GatewayFixture(loops: 2, ownsDatabase: true, feed: GatewayFixture.feed())
        var clients: [TestClient] = []
        for _ in 0..<4 { clients.append(try await TestClient.opened(port: fixture.port).0) }
        fixture.feed([.degraded(true)])
        fixture.feed([.degraded(true)])
        for client in clients { #expect(try await client.next() == .text(Self.away)) }
        for _ in 0..<2 {
            // On either loop.
            let late = try await TestClient.opened(port: fixture.port).0
            #expect(try await late.next() == .text(Self.away))
            clients.append(late)
        }
        fixture.feed([.degraded(false)])
        for client in clients { #expect(try await client.next() == .text(Self.back)) }
        let last = try await TestClient.opened(port: fixture.port).0
        try await last.send(#"{"event":"pusher:ping"}"#)
        #expect(try await last.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    @Test func theFirstCatchUpIsRemembered() {
        #expect(HubReadiness(isDone: true).hasCaughtUp())
        let watch = HubReadiness(isDone: false)
        #expect(!watch.hasCaughtUp())
        watch.changed(to: .catchingUp)
        #expect(!watch.hasCaughtUp())
        watch.changed(to: .live)
        #expect(watch.hasCaughtUp())
        watch.changed(to: .away)
        #expect(watch.hasCaughtUp(), "an outage does not take it back")
    }

    @Test func pollingCountsOnceItLasts() {
        let watch = HubReadiness(isDone: false)
        watch.changed(to: .polling)
        #expect(!watch.hasCaughtUp())
        watch.changed(to: .away)
        #expect(!watch.hasCaughtUp(at: .read().advanced(by: .seconds(60))))
        watch.changed(to: .polling)
        #expect(watch.hasCaughtUp(at: .read().advanced(by: HubReadiness.pollingLasts)))
    }

    @Test func connectionsAndTheirEndsAreCounted() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        func shows(_ line: String) -> Bool {
            var exposition = Exposition()
            metrics.append(to: &exposition)
            return String(decoding: exposition.bytes, as: UTF8.self).contains("\ncarillon_\(line)\n")
        }
        let (client, _) = try await TestClient.opened(port: fixture.port)
        try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"news"}}"#)
        _ = try await client.next()
        #expect(shows(#"connections{kind="websocket"} 1"#))
        #expect(shows("connections_total 1"))
        #expect(shows(#"subscriptions{kind="public"} 1"#))
        #expect(shows("handshake_seconds_count 1"))
        #expect(shows("messages_received_total 1"))
        try await client.send(0x8, [0x03, 0xE8])
        #expect(try await client.next() == .close(1000))
        #expect(try await client.next() == .end)
        #expect(shows(#"disconnects_total{code="1000"} 1"#))
        #expect(shows(#"connections{kind="websocket"} 0"#))
        #expect(shows(#"subscriptions{kind="public"} 0"#))
        let unknown = try TestClient(port: fixture.port)
        try await unknown.upgrade("/app/other?protocol=7")
        _ = try await unknown.next()
        #expect(try await unknown.next() == .close(4001))
        #expect(shows(#"disconnects_total{code="4001"} 1"#))
        let browser = try TestClient(port: fixture.port)
        try await browser.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await browser.response().head.hasPrefix("HTTP/1.1 404 "))
        #expect(shows(#"http_responses_total{status="404"} 1"#))
    }

    @Test func topicsAreBounded() {
        let counters = TopicCounters()
        for number in 0..<TopicCounters.topicsMax + 1 { counters["topic_\(number)"].add() }
        counters["topic_0"].add()
        #expect(counters.series.count == TopicCounters.topicsMax + 1)
        #expect(counters.series.first?.1 == 2)
        #expect(counters.series.last?.1 == 1)
    }
}
