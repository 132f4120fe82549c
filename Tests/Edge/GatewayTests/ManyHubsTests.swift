import Clock
import HubEngine
import Pusher
import TestHub
import TestRedis
import TestSupport
import Testing

@testable import Gateway

/// Two hubs that share the state of ordinary channels in one Redis, with clients at each.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ManyHubsTests {
    private let app = TestApp {
        $0.features.clientEvents = true
        $0.features.subscriptionCounts = true
        $0.features.watchlists = true
    }

    private func hubs(
        _ name: String, on server: RedisServer, loops: Int = 2, settling: Duration = .seconds(1),
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws -> [GatewayFixture] {
        try await RedisState.$group.withValue(RedisState.Group(name, on: server, settling: settling)) {
            var hubs: [GatewayFixture] = []
            for _ in 0..<2 {
                hubs.append(
                    try await GatewayFixture(loops: loops) {
                        $0.apps = [app.app]
                        change(&$0)
                    })
            }
            return hubs
        }
    }

    private func publish(
        _ channel: String, _ event: String, except: SocketID? = nil, by hub: GatewayFixture
    ) async throws -> ChannelFacts {
        let name = try #require(ChannelName(channel))
        let publication = Publication(channel: name, event: event, data: Array("1".utf8), except: except)
        let app = app.app
        // As backends do when they are told 503.
        while true {
            let result = await hub.ask { loop, answer in
                loop.directory.publish([publication], of: app, tellsFacts: true, answer)
            }
            if let facts = try? result.get() { return facts[0] }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private func facts(_ channel: String, by hub: GatewayFixture) async throws -> ChannelFacts {
        let (name, app) = (try #require(ChannelName(channel)), app.app)
        return try await hub.ask { loop, answer in loop.directory.facts(of: name, of: app, answer) }.get()
    }

    /// The next message that has this in it.
    private func text(_ part: String, _ client: TestClient) async throws -> String {
        while true {
            let text = try await client.text()
            if text.contains(part) { return text }
        }
    }

    @Test func anEventReachesEachHubAndNotTheOneExcluded() async throws {
        let hubs = try await hubs("events", on: RedisServer())
        let (here, _) = try await TestClient.opened(hubs[0], app)
        let (there, socketID) = try await TestClient.opened(hubs[1], app)
        for client in [here, there] {
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"news"}}"#)
            _ = try await text("subscription_succeeded", client)
        }
        let id = try #require(Array(socketID.utf8).withUnsafeBytes { SocketID($0) })
        #expect(try await publish("news", "first", except: id, by: hubs[0]).subscriptionCount == 2)
        #expect(try await publish("news", "second", by: hubs[1]).subscriptionCount == 2)
        _ = try await text("first", here)
        // Counts come between them.
        #expect(try await text(#""data":"1""#, here).contains("second"))
        #expect(try await text(#""data":"1""#, there).contains("second"))
    }

    @Test func aUserOfBothHubsIsOneMember() async throws {
        let hubs = try await hubs("presence", on: RedisServer()) { $0.channelLimits.shards.leaveGrace = .zero }
        let (watcher, watcherID) = try await TestClient.opened(hubs[0], app)
        _ = try await watcher.enter("presence-x", as: "w", app, watcherID)
        let (one, oneID) = try await TestClient.opened(hubs[0], app)
        _ = try await one.enter("presence-x", as: "u", info: #"{"n":1}"#, app, oneID)
        #expect(try await text("member_added", watcher).contains(#"\"n\":1"#))
        let (two, twoID) = try await TestClient.opened(hubs[1], app)
        let list = try await two.enter("presence-x", as: "u", info: #"{"n":2}"#, app, twoID)
        #expect(list.contains(#"\"count\":2"#) && list.contains(#"\"n\":2"#))
        // What the latest join says is told to newcomers of the other hub.
        let (late, lateID) = try await TestClient.opened(hubs[0], app)
        let again = try await late.enter("presence-x", as: "v", app, lateID)
        #expect(again.contains(#"\"count\":3"#) && again.contains(#"\"n\":2"#))
        #expect(try await text("member_", watcher).contains(#"\"v\""#))
        #expect(try await facts("presence-x", by: hubs[1]).userCount == 3)
        // The user leaves one hub, and then the other.
        try await one.send(#"{"event":"pusher:unsubscribe","data":{"channel":"presence-x"}}"#)
        try await late.send(#"{"event":"pusher:unsubscribe","data":{"channel":"presence-x"}}"#)
        #expect(try await text("member_", watcher).contains(#"\"v\""#))
        try await two.send(#"{"event":"pusher:unsubscribe","data":{"channel":"presence-x"}}"#)
        #expect(try await text("member_removed", watcher).contains(#"\"u\""#))
        #expect(try await facts("presence-x", by: hubs[0]).userCount == 1)
    }

    @Test func aKeptEventIsKnownAtEachHub() async throws {
        let hubs = try await hubs("cache", on: RedisServer())
        _ = try await publish("cache-x", "kept", by: hubs[0])
        let (client, _) = try await TestClient.opened(hubs[1], app)
        try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"cache-x"}}"#)
        _ = try await text("kept", client)
    }

    @Test func aTerminationAndAWatchlistReachEachHub() async throws {
        let hubs = try await hubs("users", on: RedisServer())
        let (watcher, watcherID) = try await TestClient.opened(hubs[0], app)
        try await watcher.signin("w", more: #","watchlist":["u"]"#, app, watcherID)
        _ = try await text("offline", watcher)
        let (user, userID) = try await TestClient.opened(hubs[1], app)
        try await user.signin("u", app, userID)
        _ = try await text("online", watcher)
        await hubs[0].terminate("u", of: app.app)
        #expect(try await user.next() == .close(4009))
        // Its grace is over.
        _ = try await text("offline", watcher)
    }

    /// A hub that ends says so: its members get their grace, and are removed then.
    @Test func membersOfAHubThatEndsAreGoneAfterTheirGrace() async throws {
        var hubs = try await hubs("end", on: RedisServer()) { $0.channelLimits.shards.leaveGrace = .milliseconds(200) }
        let (watcher, watcherID) = try await TestClient.opened(hubs[0], app)
        _ = try await watcher.enter("presence-x", as: "w", app, watcherID)
        let (client, id) = try await TestClient.opened(hubs[1], app)
        _ = try await client.enter("presence-x", as: "u", app, id)
        _ = try await text("member_added", watcher)
        await hubs.removeLast().end().value
        #expect(try await text("member_removed", watcher).contains(#"\"u\""#))
        #expect(try await facts("presence-x", by: hubs[0]).userCount == 1)
    }

    /// Redis begins anew, with nothing: hubs say again what they hold, and nobody sees anybody leave.
    @Test func nobodySeesAnybodyLeaveWhenRedisIsNew() async throws {
        let server = try RedisServer()
        // A busy machine is slow to connect again.
        let hubs = try await hubs("anew", on: server, settling: .seconds(8))
        var clients: [TestClient] = []
        for (number, hub) in hubs.enumerated() {
            let (client, id) = try await TestClient.opened(hub, app)
            _ = try await client.enter("presence-x", as: "u\(number)", app, id)
            clients.append(client)
        }
        _ = try await text("member_added", clients[0])
        try server.restart()
        // Until the hubs are back.
        var count = 0
        while count < 2 {
            count = (try? await facts("presence-x", by: hubs[0]).userCount) ?? 0
            try await Task.sleep(for: .milliseconds(20))
        }
        _ = try await publish("presence-x", "after", by: hubs[1])
        for client in clients {
            let next = try await client.text()
            #expect(next.contains("after"), "\(next)")
        }
        #expect(try await facts("presence-x", by: hubs[1]).subscriptionCount == 2)
    }
}
