import API
import Channels
import Dispatch
import Pusher
import Sync
import TestSupport
import Testing

@testable import Gateway

/// What apps leave to each other of the way between loops.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PublishBacklogTests {
    @Test func oneAppLeavesHalf() {
        let backlog = PublishBacklog()
        for count in 1...50 {
            backlog.add(of: 0)
            #expect(!backlog.isFull(for: 0, max: 100), "\(count)")
        }
        backlog.add(of: 0)
        #expect(backlog.isFull(for: 0, max: 100) && !backlog.isFull(for: 1, max: 100))
        // The other has a third then, and so has the first.
        for _ in 0..<33 { backlog.add(of: 1) }
        #expect(!backlog.isFull(for: 1, max: 100))
        backlog.add(of: 1)
        #expect(backlog.isFull(for: 1, max: 100) && !backlog.isFull(for: 2, max: 100))
        #expect(backlog.count == 85)
        for _ in 0..<18 { backlog.subtract(of: 0) }
        #expect(backlog.isFull(for: 1, max: 100) && !backlog.isFull(for: 0, max: 100))
        for _ in 0..<17 { backlog.subtract(of: 0) }
        #expect(!backlog.isFull(for: 1, max: 100), "all together have half")
    }

    @Test func togetherTheyHaveNoMore() {
        let backlog = PublishBacklog()
        for app in 0..<100 { backlog.add(of: app) }
        #expect(!backlog.isFull(for: 100, max: 100))
        backlog.add(of: 100)
        #expect(backlog.isFull(for: 101, max: 100))
        for app in 0...100 { backlog.subtract(of: app) }
        #expect(backlog.count == 0)
        // Nobody has anything: the one that comes may have its half again.
        for _ in 0..<50 { backlog.add(of: 7) }
        #expect(!backlog.isFull(for: 7, max: 100))
    }

    /// What a subscribe asks of a home on another loop counts until the home has looked, and its answer until it has come.
    @Test func subscribesCount() async throws {
        let hub = try await DrivenHub(loops: 2)
        let peers = [try hub.open(), try hub.open()]
        var seen: Set<Int> = []
        // Of two connections on two loops, one is not at home.
        for peer in peers { try hub.ask(peer, for: "presence-x", as: "u") }
        for _ in 0..<50 {
            for loop in hub.loops {
                loop.tick(waitingAtMost: .zero)
                seen.insert(hub.metrics.publishes.count)
            }
        }
        for peer in peers { #expect(try peer.texts().contains { $0.contains("subscription_succeeded") }) }
        #expect(seen == [0, 1], "\(seen)")
        #expect(hub.metrics.publishes.count == 0)
    }

    /// Asked for again while the app has too much under way, a list of members is not sent, and may be asked for once more.
    @Test func whatWasAnsweredBeforeGivesWay() async throws {
        let hub = try await DrivenHub { $0.limits.publishesUnderWayMax = 10 }
        let peer = try hub.subscribed(to: "presence-x", as: "u")
        func answers() throws -> Int { try peer.texts().count { $0.contains("subscription_succeeded") } }
        for _ in 0...10 { hub.metrics.publishes.add(of: hub.app.index) }
        let other = try hub.open()
        try hub.ask(peer, for: "presence-x", as: "u")
        try hub.ask(other, for: "presence-x", as: "v")
        try hub.turn { try other.texts().contains { $0.contains("subscription_succeeded") } }
        #expect(try answers() == 1, "a first subscribe is always taken")
        for _ in 0...10 { hub.metrics.publishes.subtract(of: hub.app.index) }
        try hub.ask(peer, for: "presence-x", as: "u")
        try hub.turn { try answers() == 2 }
    }

    /// One app's flood is its own matter: what the other publishes and what its clients say goes on.
    @Test(arguments: [1, 2]) func theOthersPublishesAndClientEventsPass(loops: Int) async throws {
        let flooding = TestApp(0) { $0.features.clientEvents = true }
        let quiet = TestApp(1) { $0.features.clientEvents = true }
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: loops, metrics: metrics) {
            $0.apps = [flooding.app, quiet.app]
            $0.limits.publishesUnderWayMax = 100
        }
        for _ in 0...(50 * loops) { metrics.publishes.add(of: flooding.app.index) }
        for app in [flooding, quiet] {
            var caller = PusherCaller(credentials: app.app.credentials, app: app.app.id)
            caller.time = UnixTime.read().microseconds / 1_000_000
            let backend = try TestClient(port: fixture.port)
            for request in [caller.publish("private-a"), caller.get("/channels"), caller.get("/channels/private-a")] {
                try await backend.sendRaw(request)
                let (head, _) = try await backend.response()
                let isRefused = head.hasPrefix("HTTP/1.1 503 ") && head.contains("Retry-After: 1\r\n")
                #expect(isRefused == (app.number == 0) && (isRefused || head.hasPrefix("HTTP/1.1 200 ")), "\(head)")
            }
            // An end of connections is no flood.
            try await backend.sendRaw(caller.post("/users/u/terminate_connections", "{}"))
            #expect(try await backend.response().head.hasPrefix("HTTP/1.1 200 "))
            let (sender, senderID) = try await TestClient.opened(fixture, app)
            let (receiver, receiverID) = try await TestClient.opened(fixture, app)
            try await sender.subscribe("private-a", app, senderID)
            try await receiver.subscribe("private-a", app, receiverID)
            try await sender.send(#"{"event":"client-e","channel":"private-a","data":"x"}"#)
            if app.number == 1 {
                let heard = try await receiver.text()
                #expect(heard == #"{"event":"client-e","channel":"private-a","data":"x"}"#)
            } else {
                #expect(try await sender.answersPing())
                #expect(metrics.text.contains(#"client_events_refused_total{reason="overload"} 1"#))
            }
        }
    }

    /// What another loop is asked counts until it looks at it.
    @Test func whatIsAskedCountsUntilItIsLookedAt() async throws {
        let app = TestApp(0).app
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 2, metrics: metrics) { $0.apps = [app] }
        var number = 0
        while try ChannelKey(app.index, #require(ChannelName("c\(number)"))).home(of: 2) != 1 { number += 1 }
        let name = try #require(ChannelName("c\(number)"))
        let (isHeld, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        fixture.gateway.context.mailboxes[1].post(
            .ask { _ in
                isHeld.signal()
                mayGoOn.wait()
            })
        isHeld.wait()
        let counts = await fixture.ask { loop, answer in
            guard loop.directory.facts(of: name, of: app, { _ in answer([1, metrics.publishes.count]) }) == nil else {
                return []
            }
            let whileItWaits = metrics.publishes.count
            mayGoOn.signal()
            return whileItWaits == 1 ? nil : [0, whileItWaits]
        }
        #expect(counts == [1, 0])
    }

    /// Each loop stops when all together have found too many.
    @Test func aListThatIsTooLongEndsEarly() async throws {
        let found = FoundChannels(max: 2)
        #expect(!found.isOneTooMany() && !found.isOneTooMany() && !found.areTooMany)
        #expect(found.isOneTooMany() && found.areTooMany)
        let app = TestApp(0)
        let fixture = try await GatewayFixture(loops: 3) { $0.apps = [app.app] }
        let (client, _) = try await TestClient.opened(fixture, app)
        for number in 0..<60 {
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"c\#(number)"}}"#)
            _ = try await client.text()
        }
        for (max, range) in [(5, 6...8), (59, 60...60), (60, 60...60)] {
            let list = await fixture.ask { loop, answer in
                loop.directory.channels(of: app.app, prefix: "", max: max, answer)
            }
            #expect(range.contains(list.count), "\(list.count)")
        }
    }
}
