import HubEngine
import Pusher
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// The bound of ordinary channels in a running hub, invalid channel names, and metrics per app.
@Suite(.eachState, .ownThread, .timeLimit(.minutes(15))) struct ChannelBoundConnectionTests {
    private func subscribe(_ name: String, _ client: TestClient) async throws -> String {
        try await client.send(#"{"event":"pusher:subscribe","data":{"auth":"","channel":"\#(name)"}}"#)
        return try await client.text()
    }

    private func succeeded(_ name: String) -> String {
        #"{"event":"pusher_internal:subscription_succeeded","channel":"\#(name)","data":"{}"}"#
    }

    private func value(_ series: String, _ metrics: GatewayMetrics) -> Int? {
        metrics.text.split(separator: "\n").first { $0.hasPrefix("carillon_\(series) ") }
            .flatMap { Int($0.split(separator: " ").last ?? "") }
    }

    @Test(arguments: [1, 3], [true, false]) func theLastChannelIsTakenAndNoFurther(
        _ loops: Int, ofApp: Bool
    ) async throws {
        let metrics = GatewayMetrics()
        let app = TestApp { $0.limits.channelsMax = ofApp ? 9 : nil }
        let fixture = try await GatewayFixture(loops: loops, metrics: metrics) {
            $0.apps = [app.app]
            $0.channelLimits.shards.channelsMax = ofApp ? 100 : 9
        }
        let (client, _) = try await TestClient.opened(fixture, app)
        for number in 0..<9 { #expect(try await subscribe("c\(number)", client) == succeeded("c\(number)")) }
        let whose = ofApp ? "app" : "hub"
        #expect(
            try await subscribe("c9", client)
                == #"{"event":"pusher:subscription_error","channel":"c9","data":"{\"type\":\"LimitReached\",\"error\":\"This "#
                + "\(whose) has no room for another channel of this connection now: channels that exist can be joined. "
                + #"Try again later\",\"status\":503}"}"#)
        let limit = ofApp ? "apps[].limits.channels" : "limits.channels"
        #expect(value(#"limits_reached_total{limit="\#(limit)"}"#, metrics) == 1)
        #expect(value(#"app_limits_reached_total{app="1",limit="limits.channels"}"#, metrics) == 1)
        #expect(value("channels", metrics) == 9 && value(#"app_channels{app="1"}"#, metrics) == 9)
        #expect(metrics.takeLimitNotes().map(\.limit) == [limit])
        // A later client joins an existing channel, and its connection stays open.
        let (other, _) = try await TestClient.opened(fixture, app)
        #expect(try await subscribe("c8", other) == succeeded("c8"))
        #expect(try await subscribe("c9", other).contains(#"\"status\":503"#))
        #expect(try await client.answersPing())
        // Freed room is used again.
        try await client.send(#"{"event":"pusher:unsubscribe","data":{"channel":"c0"}}"#)
        #expect(try await client.answersPing())
        // The app's room is freed behind the hub's.
        #expect(eventually { value("channels", metrics) == 8 && value(#"app_channels{app="1"}"#, metrics) == 8 })
        #expect(try await subscribe("c9", other) == succeeded("c9"))
        #expect(try await subscribe("c0", client).contains(#"\"status\":503"#))
    }

    /// Many invented channels of each of some connections leave room for other connections' channels.
    @Test(arguments: [1, 3]) func aFloodLeavesRoom(_ loops: Int) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: loops, metrics: metrics) {
            $0.channelLimits.shards.channelsMax = 200
            $0.channelLimits.shards.fewChannels = 4
        }
        var crowd: [TestClient] = []
        for _ in 0..<10 { crowd.append(try await TestClient.opened(fixture, TestApp { $0.key = "key" }).0) }
        for (index, client) in crowd.enumerated() {
            for number in 0..<60 {
                try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"f\#(index)-\#(number)"}}"#)
            }
        }
        for client in crowd { for _ in 0..<60 { _ = try await client.text() } }
        let held = try #require(value("channels", metrics))
        #expect(held > 100 && held < 200, "\(held)")
        #expect(value(#"limits_reached_total{limit="limits.channels"}"#, metrics) == 600 - held)
        let (other, _) = try await TestClient.opened(fixture, TestApp { $0.key = "key" })
        #expect(try await subscribe("own", other) == succeeded("own"))
        #expect(try await subscribe("f0-0", other) == succeeded("f0-0"))
        crowd = []
        #expect(eventually { value("channels", metrics) == 2 })
    }

    // MARK: Names

    /// Reported to the channel under the client's name for it: pusher-js finds it only by that.
    @Test(arguments: [
        "a b", "", "#x", "#server-to-user-", "é", "a/b", #"\"\\"#, #"\u0041 \n"#, "<script>", "private-a b", "\u{2028}",
        String(repeating: "n", count: 201), String(repeating: "é ", count: 10_000),
    ])
    func aNameThatIsNoneIsToldToItsChannel(_ name: String) async throws {
        let fixture = try await GatewayFixture(loops: 1)
        let (client, _) = try await TestClient.opened(fixture, TestApp { $0.key = "key" })
        let answer =
            #"{"event":"pusher:subscription_error","channel":"\#(name)","data":"{\"type\":\"InvalidChannel\","#
            + #"\"error\":\"This is no channel name: names have 1 to 200 letters, digits and _-=@,.;\",\"status\":400}"}"#
        #expect(try await subscribe(name, client) == answer)
        let inner = name.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        try await client.send(#"{"event":"pusher:subscribe","data":"{\"channel\":\"\#(inner)\"}"}"#)
        #expect(try await client.text() == answer)
        #expect(try await client.answersPing())
    }

    /// An overlong signature is a wrong one, and is also reported to the channel.
    @Test(arguments: [512, 513]) func aLongSignatureIsAWrongOne(_ bytes: Int) async throws {
        let fixture = try await GatewayFixture(loops: 1)
        let (client, _) = try await TestClient.opened(fixture, TestApp { $0.key = "key" })
        let auth = String(repeating: "x", count: bytes)
        try await client.send(#"{"event":"pusher:subscribe","data":{"auth":"\#(auth)","channel":"private-x"}}"#)
        let answer = try await client.text()
        #expect(answer.hasPrefix(#"{"event":"pusher:subscription_error","channel":"private-x","#))
        #expect(answer.contains(#"\"status\":401"#))
    }

    // MARK: Apps

    @Test(arguments: [1, 2]) func whatAnAppDoesIsCountedUnderItsID(_ loops: Int) async throws {
        let metrics = GatewayMetrics()
        let first = TestApp(0) {
            $0.features.clientEvents = true
            $0.limits.connectionsMax = 3
            $0.limits.presenceMembersMax = 1
        }
        let second = TestApp(1)
        let fixture = try await GatewayFixture(loops: loops, metrics: metrics) { $0.apps = [first.app, second.app] }
        let all = { (series: String) in
            (1...2).map { value(series.replacing("APP", with: "\($0)"), metrics) }
        }
        let (one, id) = try await TestClient.opened(fixture, first)
        let (two, otherID) = try await TestClient.opened(fixture, first)
        let (stranger, _) = try await TestClient.opened(fixture, second)
        try await one.subscribe("private-x", first, id)
        try await two.subscribe("private-x", first, otherID)
        #expect(try await subscribe("news", stranger) == succeeded("news"))
        #expect(all(#"app_connections{app="APP"}"#) == [2, 1] && all(#"app_subscriptions{app="APP"}"#) == [2, 1])
        #expect(all(#"app_channels{app="APP"}"#) == [1, 1])
        try await one.send(#"{"event":"client-e","channel":"private-x","data":"1"}"#)
        #expect(try await two.text() == #"{"event":"client-e","channel":"private-x","data":"1"}"#)
        #expect(all(#"app_messages_received_total{app="APP"}"#) == [3, 1])
        #expect(all(#"app_channel_events_total{app="APP",from="client"}"#) == [1, 0])
        #expect(all(#"app_channel_events_total{app="APP",from="backend"}"#) == [0, 0])
        #expect(eventually { all(#"app_channel_events_delivered_total{app="APP"}"#) == [1, 0] })
        // A bound of the app.
        let (third, _) = try await TestClient.opened(fixture, first)
        let late = try TestClient(port: fixture.port)
        try await late.upgrade(first.path)
        #expect(try await late.text().contains("4004"))
        #expect(all(#"app_limits_reached_total{app="APP",limit="limits.connections"}"#) == [1, 0])
        #expect(try await third.answersPing())
        // A changed app keeps its counts; a removed app's are not shown.
        var changed = first
        changed.limits.connectionsMax = nil
        try fixture.gateway.replaceApps([changed.app])
        #expect(try await stranger.next() == .close(4001))
        #expect(all(#"app_messages_received_total{app="APP"}"#) == [4, nil])
        #expect(try await one.answersPing())
        #expect(all(#"app_messages_received_total{app="APP"}"#) == [5, nil])
        try fixture.gateway.replaceApps([changed.app, second.app])
        #expect(eventually { all(#"app_connections{app="APP"}"#)[1] == 0 })
        #expect(all(#"app_messages_received_total{app="APP"}"#) == [5, 1])
    }
}
