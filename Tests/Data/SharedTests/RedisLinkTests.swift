import Clock
import HubEngine
import Pusher
import RESP
import TestRedis
import TestSupport
import Testing

@testable import Shared

/// Calls on their way to Redis, when connections, scripts, writes or hubs are lost.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RedisLinkTests {
    private let news = LinkWorld.key("news")
    private let presence = LinkWorld.key("presence-x")

    /// What breaks what is under way.
    enum Fault: CaseIterable {
        case connections, scripts
    }

    private func strike(_ fault: Fault, _ world: LinkWorld) throws {
        switch fault {
        case .connections:
            for kind in ["normal", "pubsub"] {
                _ = try world.redis.callText("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            }
        case .scripts: _ = try world.redis.callText("SCRIPT", "FLUSH", "SYNC")
        }
    }

    /// Each call is carried out once, and answered, however often it has to be sent.
    @Test(arguments: Fault.allCases) func callsAreRepeatedAndDoneOnce(_ fault: Fault) throws {
        let world = try LinkWorld(hubs: 1)
        guard case .entered(let first) = try world.ask(.enter(news, Entering())) else { throw CancellationError() }
        var numbers: [UInt64] = []
        for round in 0..<20 {
            for step in 0..<10 {
                numbers.append(world.hubs[0].send(step % 5 == 0 ? .enter(news, Entering()) : LinkWorld.event(news)))
            }
            if round % 3 == 0 { try strike(fault, world) }
            // Nothing is refused for want of a connection.
            try world.run { world.hubs[0].shared.metrics.connections.level == 1 }
        }
        try world.run { numbers.allSatisfy { world.hubs[0].replies[$0] != nil } }
        let answered = numbers.filter { if case .unavailable? = world.hubs[0].replies[$0] { false } else { true } }
        // What was sent before the loss was known waits for the next connection; backends hear that it is away.
        let entered = answered.count { if case .entered? = world.hubs[0].replies[$0] { true } else { false } }
        #expect(entered == 40 && world.hubs[0].shared.metrics.repeats.count > 0)
        #expect(try world.facts(news).subscriptionCount == 41)
        // Each event has raised the sequence by one, and nothing else has.
        guard case .entered(let last) = try world.ask(.enter(news, Entering(isRepeated: true))) else {
            throw CancellationError()
        }
        #expect(Int(last.sequence - first.sequence) == answered.count - entered)
        #expect(world.hubs[0].gaps > 0)
    }

    /// All is lost: the next call that changes something is refused, and the hub says again what it holds.
    @Test func aLossOfAllIsSeenByTheNextCall() throws {
        let world = try LinkWorld(hubs: 1) { $0.settling = .seconds(1) }
        while case .unavailable = try world.ask(LinkWorld.event(news)) {}
        _ = try world.ask(.enter(news, Entering()))
        _ = try world.redis.callText("FLUSHALL")
        // Nobody could be told of it.
        guard case .unavailable = try world.ask(LinkWorld.event(news)) else {
            Issue.record("an event was taken")
            return
        }
        world.hubs[0].send(.exit(ChannelExit(key: LinkWorld.key("other"), userID: nil, mayReturn: false)))
        try world.run { world.hubs[0].gaps > 0 }
        #expect(try world.facts(news).subscriptionCount == 0)
        var attending = Attending()
        attending.connections = 1
        // It settles first: others may not have said yet what they hold.
        guard case .entered = try world.ask(.assert(news, attending)) else {
            Issue.record("not asserted")
            return
        }
        #expect(try world.facts(news).subscriptionCount == 1)
    }

    /// A state that begins anew counts from above all that the old one has had: hubs that have come far in the old one would
    /// take its first changes for old ones, and forget them once it has come as far.
    @Test func aNewStateCountsAboveTheOldOne() throws {
        let world = try LinkWorld(hubs: 1)
        func sequence() throws -> UInt64 {
            while true {
                if case .entered(let entered) = try world.ask(.enter(news, Entering())) { return entered.sequence }
            }
        }
        var last = try sequence()
        for _ in 0..<3 {
            for _ in 0..<50 { _ = try world.ask(LinkWorld.event(news)) }
            let gaps = world.hubs[0].gaps
            try world.server.restart()
            try world.run { world.hubs[0].gaps > gaps }
            let first = try sequence()
            #expect(first > last)
            last = first
        }
    }

    /// Redis has not answered for a while: hubs may have lost their connections, and one that is back first must not have
    /// events taken that others do not hear.
    @Test func nothingIsTakenJustAfterAnOutage() throws {
        let world = try LinkWorld(hubs: 2) {
            $0.settling = .seconds(5)
            $0.redis.replyTimeout = .seconds(2)
        }
        while case .unavailable = try world.ask(LinkWorld.event(news)) {}
        _ = try world.redis.callText("CLIENT", "PAUSE", "6000")
        try world.run { world.hubs[0].shared.metrics.connections.level == 0 }
        try world.run { world.hubs[0].shared.metrics.connections.level == 1 }
        guard case .unavailable = try world.ask(LinkWorld.event(news)) else {
            Issue.record("an event was taken")
            return
        }
        while case .unavailable = try world.ask(LinkWorld.event(news)) {}
    }

    /// A backend hears whether an event may have been published.
    @Test func whatIsKnownOfARefusedEventIsTold() throws {
        let world = try LinkWorld(hubs: 1) {
            $0.settling = .seconds(2)
            $0.redis.replyTimeout = .seconds(2)
        }
        guard case .unavailable(.settling) = try world.ask(LinkWorld.event(news)) else {
            Issue.record("it settles at first")
            return
        }
        while case .unavailable = try world.ask(LinkWorld.event(news)) {}
        // Redis has it, or will have it, and does not answer.
        _ = try world.redis.callText("CLIENT", "PAUSE", "8000")
        guard case .unavailable(.unknown) = try world.ask(LinkWorld.event(news)) else {
            Issue.record("nobody can know it")
            return
        }
        _ = try world.redis.callText("CLIENT", "PAUSE", "8000")
        try world.run { world.hubs[0].shared.metrics.connections.level == 0 }
        guard case .unavailable(.notDone) = try world.ask(LinkWorld.event(news)) else {
            Issue.record("there is no connection")
            return
        }
        while case .unavailable = try world.ask(LinkWorld.event(news)) {}
        _ = try world.redis.callText("CONFIG", "SET", "maxmemory", "1")
        guard case .unavailable(.notDone) = try world.ask(LinkWorld.event(news)) else {
            Issue.record("it is full")
            return
        }
    }

    /// An event that a settling bucket refuses has its place in the caller's order: what follows is not taken for lost.
    @Test func aRefusedEventDoesNotBreakTheOrder() throws {
        let world = try LinkWorld(hubs: 1) { $0.settling = .seconds(2) }
        let hub = world.hubs[0]
        for _ in 0..<5 {
            let event = hub.send(LinkWorld.event(news))
            let entry = hub.send(.enter(news, Entering()))
            try world.run { hub.replies[event] != nil && hub.replies[entry] != nil }
            guard case .unavailable? = hub.replies[event], case .entered? = hub.replies[entry] else {
                Issue.record("\(String(describing: hub.replies))")
                return
            }
        }
        #expect(hub.shared.metrics.repeats.count == 0 && hub.gaps == 0)
    }

    /// A replica that takes over may have lost a hub's last exit: each hub is told where it is counted and nobody is.
    @Test func aLostExitIsSaidAgain() throws {
        let world = try LinkWorld(hubs: 2)
        for number in 0..<600 { world.hubs[0].send(.enter(LinkWorld.key("left-\(number)"), Entering())) }
        _ = try world.ask(.enter(news, Entering()), by: 1)
        world.hubs[0].link?.send(.follow(presence))
        _ = try world.ask(.enter(presence, LinkWorld.entering("u")))
        try strike(.connections, world)
        try world.run { Set(world.hubs[0].latest).count >= 600 }
        #expect(!world.hubs[0].latest.contains(presence) && !world.hubs[0].latest.contains(news))
        try world.run { world.hubs[1].latest.contains(news) }
    }

    /// A hub that was taken for dead is told so, and goes on as another.
    @Test func aHubTakenForDeadGoesOnAsAnother() throws {
        let world = try LinkWorld(hubs: 2)
        let hub = world.hubs[0]
        _ = try world.ask(.enter(presence, LinkWorld.entering("u")))
        _ = try world.ask(.reap(hub.shared.hub), by: 1)
        let reply = try world.ask(.enter(presence, LinkWorld.entering("v")))
        // Its beat may have told it so before.
        if case .unavailable = reply {
        } else {
            #expect(hub.shared.presentHub != hub.shared.hub, "a dead hub was heard")
        }
        try world.run { hub.gaps > 0 }
        var attending = Attending()
        attending.connections = 1
        attending.members = [Attending.Member(PresenceMember(id: "u", info: []), connections: 1)]
        _ = try world.ask(.assert(presence, attending))
        #expect(try world.facts(presence, by: 1).subscriptionCount == 1)
    }

    /// One bucket takes a hub for dead before the others do: what the hub was counts in none of them any longer.
    @Test func aHubTakenForDeadInOneBucketIsCountedOnce() throws {
        let world = try LinkWorld(hubs: 1) { $0.lease = .seconds(600) }
        let keys = (0..<16).map { LinkWorld.key("news-\($0)") }
        for key in keys { _ = try world.ask(.enter(key, Entering())) }
        let bucket = try #require(BucketKeys(count: 4).prefixes.first)
        _ = try world.redis.callText("HSET", bucket + "callers", "\(world.hubs[0].shared.hub.number)", "1")
        try world.run { world.hubs[0].gaps > 0 }
        var attending = Attending()
        attending.connections = 1
        for key in keys { _ = try world.ask(.assert(key, attending)) }
        try world.run { try keys.allSatisfy { try world.facts($0).subscriptionCount == 1 } }
    }

    /// Nobody hears of a hub any more: another finds it dead when its lease is over, and ends the graces of its members.
    @Test func gracesOfADeadHubEnd() throws {
        let world = try LinkWorld(hubs: 2) {
            $0.lease = .seconds(5)
            $0.limits.leaveGrace = .milliseconds(200)
        }
        world.hubs[0].link?.send(.follow(presence))
        _ = try world.ask(.enter(presence, LinkWorld.entering("w")))
        _ = try world.ask(.enter(presence, LinkWorld.entering("u")), by: 1)
        // It has beaten.
        try world.run(for: .milliseconds(1_200))
        world.hubs[1].dies()
        try world.run {
            world.hubs[0].changes.contains { if case .memberRemoved("u") = $0.what { true } else { false } }
        }
        #expect(try world.facts(presence).userCount == 1)
    }

    /// What backends are told, one hub takes over: each once, though both look.
    @Test func backendsAreToldOnce() throws {
        let world = try LinkWorld(hubs: 2)
        for number in 0..<300 {
            let key = LinkWorld.key("presence-\(number)")
            _ = world.hubs[number % 2].send(.enter(key, LinkWorld.entering("u")))
        }
        try world.run { world.hubs[0].webhooks.count + world.hubs[1].webhooks.count >= 600 }
        // Once more, behind what both were doing.
        for hub in 0..<2 { _ = try world.ask(.enter(presence, LinkWorld.entering("u")), by: hub) }
        try world.run { world.hubs[0].webhooks.count + world.hubs[1].webhooks.count >= 602 }
        let all = (world.hubs[0].webhooks + world.hubs[1].webhooks).map { "\($0)" }
        #expect(all.count == 602 && Set(all).count == 602)
    }

    /// A hub dies with what it had to tell: another tells it. What backends had taken, nobody tells again.
    @Test func whatADeadHubHadToTellAnotherTells() throws {
        let world = try LinkWorld(hubs: 1) { $0.lease = .seconds(5) }
        _ = try world.ask(.enter(LinkWorld.key("presence-told"), LinkWorld.entering("u")))
        try world.run { world.hubs[0].webhooks.count == 2 }
        // Redis knows that.
        try world.run(for: .milliseconds(500))
        world.hubs[0].isSlow = true
        for number in 0..<300 {
            world.hubs[0].send(.enter(LinkWorld.key("presence-\(number)"), LinkWorld.entering("u")))
        }
        try world.run { world.hubs[0].webhooks.count == 602 }
        try world.join()
        try world.run { world.hubs[1].shared.metrics.connections.level == 1 }
        world.hubs[0].dies()
        try world.run { world.hubs[1].webhooks.count { if case .memberAdded = $0 { true } else { false } } >= 300 }
        let told = Set(world.hubs[1].webhooks.map { "\($0)" })
        #expect(told.isSuperset(of: world.hubs[0].webhooks[2...].map { "\($0)" }))
        // That hub has since found the dead one's members gone.
        #expect(!told.contains { $0.contains("presence-told") && ($0.contains("Added") || $0.contains("ccupied")) })
    }

    /// Backends that are slow for longer than a lease are not told by another hub, and it goes on meanwhile.
    @Test func aSlowEndpointIsNoDeadHub() throws {
        let world = try LinkWorld(hubs: 2) { $0.lease = .seconds(8) }
        for hub in world.hubs { hub.isSlow = true }
        _ = try world.ask(.enter(presence, LinkWorld.entering("a")))
        for round in 0..<24 {
            try world.run(for: .milliseconds(500))
            _ = try world.ask(.enter(presence, LinkWorld.entering("\(round)")))
        }
        try world.run { world.hubs[0].webhooks.count + world.hubs[1].webhooks.count >= 26 }
        let all = (world.hubs[0].webhooks + world.hubs[1].webhooks).map { "\($0)" }
        #expect(all.count == 26 && Set(all).count == 26)
        for hub in world.hubs { hub.backendsAnswer() }
        // Nothing is kept in Redis any more.
        try world.run {
            try BucketKeys(count: 4).prefixes.allSatisfy {
                try world.redis.call([Array("XLEN".utf8), Array(($0 + "webhooks").utf8)]) == .integer(0)
            }
        }
    }

    /// Redis begins anew, and counts from one again: what was told of the old count is not taken for the new one.
    @Test func whatWasToldOfAnOldCountIsForgotten() {
        var tellings = Tellings(buckets: 2)
        let before = tellings.gets(upTo: Array("9-0".utf8), 1)
        #expect(tellings.last(1) == Array("9-0".utf8) && tellings.isUnderWay(1) && !tellings.isUnderWay(0))
        tellings.begin(1, in: [7])
        #expect(tellings.last(1) == [] && tellings.epoch(1) == [7] && !tellings.isUnderWay(1))
        let after = tellings.gets(upTo: Array("9-0".utf8), 1)
        var counts = tellings.isTold(before, 1)
        #expect(!counts && tellings.told(1) == [])
        counts = tellings.isTold(after, 1)
        #expect(counts && tellings.told(1) == Array("9-0".utf8) && tellings.isUnderWay(1))
        tellings.isKnown(Array("9-0".utf8), 1)
        #expect(tellings.told(1) == [] && !tellings.isUnderWay(1))
    }

    /// Redis is told of what was told with all before it: else another hub would tell an older event last.
    @Test func aReplayHasNoHoles() {
        var tellings = Tellings(buckets: 1)
        let pages = (1...4).map { tellings.gets(upTo: Array("\($0)-0".utf8), 0) }
        for page in pages[1...2] {
            let counts = tellings.isTold(page, 0)
            #expect(!counts && tellings.told(0) == [])
        }
        let counts = tellings.isTold(pages[0], 0)
        #expect(counts && tellings.told(0) == Array("3-0".utf8))
        // One more is told before Redis has answered.
        _ = tellings.isTold(pages[3], 0)
        tellings.isKnown(Array("3-0".utf8), 0)
        #expect(tellings.told(0) == Array("4-0".utf8))
    }

    /// The connection breaks while backends are told: they are not told again, and Redis learns of it.
    @Test(arguments: [1, 2]) func aBrokenConnectionRepeatsNoWebhook(loops: Int) throws {
        let world = try LinkWorld(hubs: 2, loops: loops) { $0.limits.leaveGrace = .milliseconds(700) }
        for hub in world.hubs { hub.isSlow = true }
        func all() -> [String] { (world.hubs[0].webhooks + world.hubs[1].webhooks).map { "\($0)" } }
        for number in 0..<20 {
            _ = world.hubs[0].send(.enter(LinkWorld.key("presence-\(number)"), LinkWorld.entering("u")))
        }
        try world.run { all().count >= 40 }
        for round in 0..<3 {
            let key = LinkWorld.key("presence-\(round)")
            world.hubs[0].send(.exit(ChannelExit(key: key, userID: "u", mayReturn: true)))
            try strike(.connections, world)
            try world.run { world.hubs.allSatisfy { $0.shared.metrics.connections.level == loops } }
            // Member and channel have gone.
            try world.run { all().count >= 42 + 2 * round }
        }
        for hub in world.hubs { hub.backendsAnswer() }
        try world.run {
            try BucketKeys(count: 4).prefixes.allSatisfy {
                try world.redis.call([Array("XLEN".utf8), Array(($0 + "webhooks").utf8)]) == .integer(0)
            }
        }
        #expect(all().count == 46 && Set(all()).count == 46)
    }

    /// It hears only once what it is to tell, also if more becomes due before Redis has answered.
    @Test func aHubTellsOnceWhileRedisIsSlow() throws {
        let world = try LinkWorld(hubs: 1)
        _ = try world.ask(.enter(presence, LinkWorld.entering("u")))
        _ = try world.redis.callText("CLIENT", "PAUSE", "1000")
        for _ in 0..<3 {
            for bucket in 0..<4 { world.hubs[0].link?.poked(bucket) }
            try world.run(for: .milliseconds(200))
        }
        try world.run { world.hubs[0].webhooks.count >= 2 }
        _ = try world.facts(presence)
        try world.run(for: .milliseconds(300))
        #expect(world.hubs[0].webhooks.count == 2)
    }

    // MARK: Beats

    private func beat(_ epoch: String, _ number: UInt64) throws -> Beat {
        var writer = SharedWriter(part: [UInt8(epoch.utf8.count)] + Array(epoch.utf8))
        writer.write(number)
        return try Beat(writer.bytes, KnownApps())
    }

    /// A beat that is missing, or of another epoch, says that something may be; silence does, too.
    @Test func beatsTellWhatIsMissing() throws {
        var watch = BeatWatch(buckets: 2)
        var now = Instant(nanoseconds: 1_000_000_000)
        #expect(watch.takeSilent(now: now) == [])
        for (epoch, number, isMissing) in [
            ("a", 7, false), ("a", 8, false), ("a", 10, true), ("a", 11, false), ("b", 12, true), ("b", 13, false),
        ] as [(String, UInt64, Bool)] {
            #expect(try watch.hasMissed(beat(epoch, number), 0, now: now) == isMissing, "\(epoch) \(number)")
        }
        now = now.advanced(by: .milliseconds(3_500))
        #expect(watch.takeSilent(now: now) == [])
        now = now.advanced(by: .milliseconds(1))
        #expect(watch.takeSilent(now: now) == [0, 1])
        #expect(watch.takeSilent(now: now) == [])
    }
}
