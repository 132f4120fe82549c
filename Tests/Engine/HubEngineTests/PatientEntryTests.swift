import HubEngine
import Pusher
import TestSupport
import Testing

/// A subscribe while nobody can say who is in a channel: Pusher's client never repeats one that was refused, so it waits.
@Suite struct PatientEntryTests {
    private let world = ChannelWorld(loops: 2, slow: 7) { $0.subscriptionCounts = true }

    private func lose(calls: Int = 0, replies: Int = 0) {
        for link in world.links { (link.faults.lostCalls, link.faults.lostReplies) = (calls, replies) }
    }

    /// Time passes in steps of a quarter of a second, and all that is told arrives.
    private func pass(_ seconds: Int) {
        for _ in 0..<4 * seconds {
            world.settle()
            world.advance(.milliseconds(250))
        }
        world.settle()
    }

    private func counts(_ wire: ChannelWorld.Wire, _ event: String) -> Int {
        wire.heard.count { $0.contains(event) }
    }

    /// `away`: the seconds for which the state says nothing. A failover takes five to eight.
    @Test(arguments: [4, 8, 20, 27], ["news", "presence-room", "cache-news", "presence-cache-room"])
    func isLetInOnceTheStateAnswers(away: Int, name: String) throws {
        let user: String? = name.hasPrefix("presence") ? "bob" : nil
        let (ada, bob) = (world.connect(0), world.connect(1))
        try world.subscribe(name, user: user.map { _ in "ada" }, ada)
        pass(2)
        lose(calls: 100)
        try world.subscribe(name, user: user, bob)
        pass(away)
        #expect(counts(bob, "subscription_succeeded") == 0 && counts(bob, "error") == 0)
        lose()
        pass(8)
        #expect(counts(bob, "subscription_succeeded") == 1 && counts(bob, "error") == 0)
        #expect(world.facts(name).subscriptionCount == 2)
        if user != nil {
            #expect(counts(ada, "member_added") == 1 && counts(ada, "member_removed") == 0)
            #expect(world.users(name) == ["ada", "bob"])
        }
        world.publish(name, "e", "1")
        pass(1)
        #expect(counts(ada, #""event":"e""#) == 1 && counts(bob, #""event":"e""#) == 1)
    }

    /// The state lets it in, and the reply is lost, again and again: it is counted once, and nobody sees it come twice.
    @Test(arguments: [4, 8, 20, 27]) func isCountedOnceThoughRepliesWereLost(away: Int) throws {
        let (ada, bob) = (world.connect(0), world.connect(1))
        try world.subscribe("presence-room", user: "ada", ada)
        pass(2)
        lose(replies: 100)
        try world.subscribe("presence-room", user: "bob", bob)
        pass(away)
        #expect(counts(bob, "subscription_succeeded") == 0 && counts(bob, "error") == 0)
        lose()
        // Beyond a grace, too.
        pass(60)
        #expect(counts(bob, "subscription_succeeded") == 1 && counts(bob, "error") == 0)
        #expect(world.facts("presence-room").subscriptionCount == 2)
        #expect(counts(ada, "member_added") == 1 && counts(ada, "member_removed") == 0)
        world.disconnect(bob)
        pass(60)
        #expect(world.users("presence-room") == ["ada"] && world.facts("presence-room").subscriptionCount == 1)
        #expect(counts(ada, "member_removed") == 1)
    }

    @Test func isRefusedOnceAfterHalfAMinute() throws {
        let bob = world.connect(0)
        lose(calls: 100)
        try world.subscribe("presence-room", user: "bob", bob)
        pass(29)
        #expect(counts(bob, "error") == 0)
        pass(8)
        #expect(counts(bob, "subscription_error") == 1)
        lose()
        pass(60)
        #expect(counts(bob, "subscription_succeeded") == 0 && counts(bob, "subscription_error") == 1)
        #expect(world.users("presence-room").isEmpty && world.localCount == 0)
        try world.subscribe("presence-room", user: "bob", bob)
        pass(1)
        #expect(counts(bob, "subscription_succeeded") == 1)
    }

    /// A client that leaves, or comes and goes, while its subscribe waits.
    @Test(arguments: [0, 1, 2, 5]) func leavingMeanwhileCounts(times: Int) throws {
        let (ada, bob, carl) = (world.connect(0), world.connect(1), world.connect(0))
        try world.subscribe("presence-room", user: "ada", ada)
        pass(2)
        lose(calls: 100)
        try world.subscribe("presence-room", user: "bob", bob)
        try world.subscribe("presence-room", user: "carl", carl)
        for _ in 0..<times {
            pass(4)
            try world.unsubscribe("presence-room", bob)
            try world.subscribe("presence-room", user: "bob", bob)
        }
        pass(2)
        try world.unsubscribe("presence-room", bob)
        world.disconnect(carl)
        pass(2)
        lose()
        pass(60)
        #expect(world.users("presence-room") == ["ada"] && world.facts("presence-room").subscriptionCount == 1)
        #expect(counts(bob, "subscription_succeeded") == 0 && !world.isSubscribed(bob, to: "presence-room"))
        // Nobody came, and so nobody went.
        #expect(counts(ada, "member_added") == 0 && counts(ada, "member_removed") == 0)
        world.disconnect(ada)
        world.disconnect(bob)
        pass(60)
        world.advance(.seconds(1_800))
        #expect(world.channelCount == 0 && world.localCount == 0)
    }

    /// Thousands of subscribes of one connection leave one to ask for.
    @Test func onlyTheLastOfAConnectionIsAskedForAgain() throws {
        let bob = world.connect(0)
        lose(calls: 100)
        for _ in 0..<200 {
            try world.subscribe("news", bob)
            try world.unsubscribe("news", bob)
        }
        try world.subscribe("news", bob)
        pass(5)
        let before = world.links.reduce(0) { $0 + $1.sent }
        pass(3)
        // Once, and what the hub has in the channel.
        #expect(world.links.reduce(0) { $0 + $1.sent } - before <= 4)
        lose()
        pass(8)
        #expect(counts(bob, "subscription_succeeded") == 1 && world.facts("news").subscriptionCount == 1)
    }

    /// A later subscribe of the connection fails before the earlier one that is asked for again: the later one counts.
    @Test func theLaterSubscribeCounts() throws {
        let bob = world.connect(0)
        lose(calls: 100)
        try world.subscribe("news", bob)
        pass(5)
        try world.unsubscribe("news", bob)
        // The first is about to be asked for again.
        world.advance(.milliseconds(500))
        try world.subscribe("news", bob)
        pass(14)
        #expect(counts(bob, "error") == 0)
        lose()
        pass(8)
        #expect(counts(bob, "subscription_succeeded") == 1 && counts(bob, "error") == 0)
        #expect(world.facts("news").subscriptionCount == 1)
    }
}
