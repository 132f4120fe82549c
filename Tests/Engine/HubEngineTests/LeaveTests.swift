import HubEngine
import Pusher
import Testing

/// Clients that say that they leave, and connections that break: what members and the app's backend are told.
@Suite struct LeaveTests {
    private func name(_ text: String) throws -> ChannelName { try #require(ChannelName(text)) }

    private func limits(grace: Duration, pause: Duration) -> ShardLimits {
        var limits = ShardLimits()
        (limits.leaveGrace, limits.webhookPause) = (grace, pause)
        return limits
    }

    /// The changes that `watcher` was told: +u, -u.
    private func changes(_ watcher: ChannelWorld.Wire) -> [String] {
        watcher.heard.compactMap { text in
            guard let user = text.firstMatch(of: /user_id\\":\\"(\w+)/)?.output.1 else { return nil }
            if text.contains("member_added") { return "+\(user)" }
            return text.contains("member_removed") ? "-\(user)" : nil
        }
    }

    /// The changes in webhooks, of users and of the channel.
    private func told(_ world: ChannelWorld) -> [String] {
        world.webhooks.compactMap { event in
            switch event {
            case .memberAdded(_, let user): "+\(user)"
            case .memberRemoved(_, let user): "-\(user)"
            case .channelOccupied: "occupied"
            case .channelVacated: "vacated"
            default: nil
            }
        }
    }

    @Test(arguments: [0, 1]) func aMemberThatUnsubscribesIsGoneAtOnce(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let room = world.name("presence-", onShard: shard)
        let (watcher, leaver) = (world.connect(0), world.connect(1))
        for (wire, user) in [(watcher, "w"), (leaver, "u")] {
            try world.subscribe(room, user: user, wire)
            world.settle()
        }
        world.disconnect(leaver, mayReturn: false)
        world.settle()
        #expect(changes(watcher) == ["+u", "-u"] && world.users(room) == ["w"])
        world.advance(.milliseconds(2_999))
        #expect(told(world) == ["occupied", "+w", "+u"])
        world.advance(.milliseconds(1))
        #expect(told(world) == ["occupied", "+w", "+u", "-u"])
    }

    /// A user's last connection decides how the user leaves.
    @Test func ofSeveralConnectionsTheLastCounts() throws {
        let world = ChannelWorld(loops: 1)
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        func two() throws -> (ChannelWorld.Wire, ChannelWorld.Wire) {
            let pair = (world.connect(0), world.connect(0))
            try world.subscribe("presence-x", user: "u", pair.0)
            try world.subscribe("presence-x", user: "u", pair.1)
            return pair
        }
        var (one, other) = try two()
        world.disconnect(one, mayReturn: false)
        world.disconnect(other)
        #expect(changes(watcher) == ["+u"])
        world.advance(.seconds(3))
        #expect(changes(watcher) == ["+u", "-u"])
        (one, other) = try two()
        world.disconnect(one)
        world.disconnect(other, mayReturn: false)
        #expect(changes(watcher) == ["+u", "-u", "+u", "-u"])
    }

    @Test func anUnsubscribeInTheGraceOfABrokenConnectionCounts() throws {
        let world = ChannelWorld(loops: 1)
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        let (old, new) = (world.connect(0), world.connect(0))
        try world.subscribe("presence-x", user: "u", old)
        world.disconnect(old)
        world.advance(.seconds(1))
        try world.subscribe("presence-x", user: "u", new)
        world.disconnect(new, mayReturn: false)
        #expect(changes(watcher) == ["+u", "-u"])
        world.advance(.seconds(10))
        #expect(changes(watcher) == ["+u", "-u"] && told(world) == ["occupied", "+w", "+u", "-u"])
    }

    /// The client subscribes and says that it leaves before the answer: the shard has admitted it, and removes it at once.
    @Test func anUnsubscribeBeforeTheAnswerCountsAtOnce() throws {
        let world = ChannelWorld(loops: 2)
        let room = world.name("presence-", onShard: 0)
        let watcher = world.connect(0)
        try world.subscribe(room, user: "w", watcher)
        world.settle()
        for mayReturn in [false, true] {
            let quick = world.connect(1)
            try world.subscribe(room, user: "u\(mayReturn)", quick)
            world.disconnect(quick, mayReturn: mayReturn)
            world.settle()
        }
        #expect(changes(watcher) == ["+ufalse", "-ufalse", "+utrue"])
        world.advance(.seconds(3))
        world.settle()
        #expect(changes(watcher).last == "-utrue")
    }

    /// The client unsubscribes and leaves before the answer: it is removed when the answer comes.
    @Test func aSubscribeThatIsTakenBackLeavesAtOnce() throws {
        let world = ChannelWorld(loops: 2)
        let room = world.name("presence-", onShard: 0)
        let watcher = world.connect(0)
        try world.subscribe(room, user: "w", watcher)
        world.settle()
        for (number, mayReturn) in [false, true].enumerated() {
            let quick = world.connect(1)
            try world.subscribe(room, user: "u\(number)", quick)
            try world.unsubscribe(room, quick)
            world.disconnect(quick, mayReturn: mayReturn)
            world.settle()
        }
        #expect(changes(watcher) == ["+u0", "-u0", "+u1", "-u1"])
        // Nothing of it remains to be mistaken for a later client's message.
        let late = world.connect(1)
        try world.subscribe(room, user: "u2", late)
        world.disconnect(late)
        world.settle()
        #expect(changes(watcher).last == "+u2")
    }

    @Test func aReturnInTheWebhooksPauseMakesNone() throws {
        let world = ChannelWorld(loops: 1)
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        for _ in 0..<5 {
            let wire = world.connect(0)
            try world.subscribe("presence-x", user: "u", wire)
            world.advance(.seconds(4))
            world.disconnect(wire, mayReturn: false)
            world.advance(.milliseconds(2_900))
        }
        #expect(changes(watcher) == Array(repeating: ["+u", "-u"], count: 5).flatMap(\.self))
        #expect(told(world) == ["occupied", "+w", "+u"])
    }

    @Test func aChannelIsVacatedAfterThePauseHoweverItWasLeft() throws {
        for mayReturn in [true, false] {
            let world = ChannelWorld(loops: 1)
            let wire = world.connect(0)
            try world.subscribe("room", wire)
            world.disconnect(wire, mayReturn: mayReturn)
            world.advance(.milliseconds(2_999))
            #expect(told(world) == ["occupied"])
            world.advance(.milliseconds(1))
            #expect(told(world) == ["occupied", "vacated"] && world.channelCount == 0)
        }
    }

    // MARK: Grace and pause apart

    /// A user whose connection breaks is a member for the grace period; the backend is told when both times are over.
    @Test(arguments: [(0, 0), (0, 5), (5, 0), (2, 5), (5, 2), (3, 3)])
    func eachTimeIsItsOwn(_ grace: Int, _ pause: Int) throws {
        for mayReturn in [true, false] {
            let world = ChannelWorld(loops: 1, limits: limits(grace: .seconds(grace), pause: .seconds(pause)))
            let (watcher, wire) = (world.connect(0), world.connect(0))
            for room in ["presence-x", "presence-alone"] { try world.subscribe(room, user: "u", wire) }
            try world.subscribe("presence-x", user: "w", watcher)
            watcher.heard = []
            world.webhooks = []
            world.disconnect(wire, mayReturn: mayReturn)
            let removed = mayReturn ? grace : 0
            let isTold = max(removed, pause)
            for second in 0..<8 {
                #expect(changes(watcher) == (second >= removed ? ["-u"] : []), "after \(second) s")
                let all = second >= isTold ? ["-u", "-u", "vacated"] : []
                #expect(told(world).sorted() == all, "after \(second) s")
                world.advance(.seconds(1))
            }
            world.disconnect(watcher, mayReturn: false)
            world.advance(.seconds(10))
            #expect(world.channelCount == 0 && world.nextDue == nil)
        }
    }

    /// With a grace longer than the pause, a member who may return keeps the channel occupied for the backend, and one who
    /// returns never left.
    @Test func aChannelWhoseMembersAreExpectedBackIsNotVacated() throws {
        let world = ChannelWorld(loops: 1, limits: limits(grace: .seconds(5), pause: .seconds(1)))
        var wire = world.connect(0)
        try world.subscribe("presence-x", user: "u", wire)
        world.disconnect(wire)
        world.advance(.seconds(4))
        #expect(told(world) == ["occupied", "+u"])
        wire = world.connect(0)
        try world.subscribe("presence-x", user: "u", wire)
        world.advance(.seconds(10))
        #expect(told(world) == ["occupied", "+u"])
        world.disconnect(wire)
        world.advance(.seconds(4))
        let other = world.connect(0)
        try world.subscribe("presence-x", user: "v", other)
        world.advance(.seconds(1))
        #expect(told(world) == ["occupied", "+u", "+v", "-u"])
        world.disconnect(other, mayReturn: false)
        world.advance(.seconds(1))
        #expect(told(world) == ["occupied", "+u", "+v", "-u", "-v", "vacated"] && world.channelCount == 1)
        world.advance(.seconds(4))
        #expect(world.channelCount == 0 && world.nextDue == nil)
    }

    /// Without a webhook pause the backend is told every change; members are still throttled.
    @Test func withoutAPauseChangesAreToldAtIntervals() throws {
        let world = ChannelWorld(loops: 1, limits: limits(grace: .seconds(3), pause: .zero))
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        world.webhooks = []
        for _ in 0..<20 {
            let wire = world.connect(0)
            try world.subscribe("presence-x", user: "u", wire)
            world.disconnect(wire, mayReturn: false)
        }
        #expect(changes(watcher) == ["+u", "-u", "+u"])
        #expect(told(world) == ["+u", "-u", "+u"])
        world.advance(.seconds(3))
        #expect(told(world) == ["+u", "-u", "+u", "-u"])
    }

    /// One past the bound, the oldest leave ends at once, in either of its two times.
    @Test(arguments: [(1, 5), (5, 1)]) func theBoundCountsALeaveOnce(_ grace: Int, _ pause: Int) throws {
        var limits = limits(grace: .seconds(grace), pause: .seconds(pause))
        limits.departuresMax = 2
        let world = ChannelWorld(loops: 1, limits: limits)
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        func pass(_ user: String) throws {
            let wire = world.connect(0)
            try world.subscribe("presence-x", user: user, wire)
            world.disconnect(wire)
        }
        try pass("a")
        world.advance(.seconds(2))
        try pass("b")
        #expect(told(world) == ["occupied", "+w", "+a", "+b"])
        try pass("c")
        #expect(told(world).suffix(2) == ["+c", "-a"])
        world.advance(.seconds(10))
        #expect(told(world).suffix(2) == ["-b", "-c"] && world.users("presence-x") == ["w"])
        #expect(world.nextDue == nil)
    }
}
