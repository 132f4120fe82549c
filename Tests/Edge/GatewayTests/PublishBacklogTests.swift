import Clock
import Dispatch
import HubEngine
import Pusher
import Sync
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// How apps share the backlog between loops.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PublishBacklogTests {
    @Test func oneAppLeavesHalf() {
        let backlog = PublishBacklog()
        for count in 1...50 {
            backlog.add(of: 0)
            #expect(!backlog.isFull(for: 0, max: 100), "\(count)")
        }
        backlog.add(of: 0)
        #expect(backlog.isFull(for: 0, max: 100) && !backlog.isFull(for: 1, max: 100))
        // Then the other has a third, and so does the first.
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
        // The backlog is empty: the next app may use half of it again.
        for _ in 0..<50 { backlog.add(of: 7) }
        #expect(!backlog.isFull(for: 7, max: 100))
    }

    /// A subscribe sent to a shard on another loop counts until the shard has handled it, and its answer until it has
    /// arrived.
    @Test func subscribesCount() async throws {
        let hub = try await DrivenHub(loops: 2)
        let peers = [try hub.open(), try hub.open()]
        var seen: Set<Int> = []
        // Of two connections on two loops, one is not on the shard's loop.
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

    /// While the app is overloaded, a repeated request for a member list is not answered; it may be repeated later.
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

    /// A question to another loop counts until that loop handles it.
    @Test func whatIsAskedCountsUntilItIsLookedAt() async throws {
        let app = TestApp(0).app
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 2, metrics: metrics) { $0.apps = [app] }
        var number = 0
        while try ChannelKey(app.index, #require(ChannelName("c\(number)"))).shard(of: 2) != 1 { number += 1 }
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

    /// Each loop stops above the bound, and collecting the lists stops once the result exceeds it.
    @Test func aListThatIsTooLongEndsEarly() async throws {
        let app = TestApp(0)
        let fixture = try await GatewayFixture(loops: 3) { $0.apps = [app.app] }
        let (client, _) = try await TestClient.opened(fixture, app)
        for number in 0..<60 {
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"c\#(number)"}}"#)
            _ = try await client.text()
        }
        for (max, range) in [(5, 6...11), (59, 60...60), (60, 60...60)] {
            let list = try await fixture.ask { loop, answer in
                loop.directory.channels(of: app.app, prefix: "", max: max, answer)
            }.get()
            #expect(range.contains(list.count), "\(list.count)")
        }
    }
}
