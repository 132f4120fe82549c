import HubEngine
import Pusher
import TestSupport
import Testing

/// Random histories of ordinary channels over several loops whose mailboxes are read in any order, compared with what each
/// client should have received: every event of a channel after the shard's answer, once and in the shard's order; the
/// members at every quiet point; and webhooks that alternate.
@Suite struct ChannelHistories {
    private static let seeds = UInt64(Environment.number("CARILLON_CHANNELS") ?? 60)

    /// What one subscription has received since an answer.
    private struct Membership {
        /// By answer: how many of the channel's events its shard had sent before, and the events received after.
        var runs: [(after: Int, events: [Int])] = []
        var members: Set<String> = []
        var count: Int?
    }

    private final class History {
        var random: SeededRandom
        let world: ChannelWorld
        var names: [String] = []
        var wires: [ChannelWorld.Wire] = []
        /// The user of each wire in presence channels.
        var users: [ObjectIdentifier: String] = [:]
        /// The channels that each wire wants.
        var wanted: [ObjectIdentifier: Set<String>] = [:]
        /// By channel, in the shard's order: the event's number, whether it is a backend's, and the excluded connection.
        var published: [String: [(number: Int, isServers: Bool, except: SocketID?)]] = [:]
        var lastNumber = 0
        /// The state is elsewhere, and each answer comes some time later.
        let isSlow: Bool

        init(seed: UInt64, isSlow: Bool) {
            random = SeededRandom(seed: seed)
            self.isSlow = isSlow
            let loops = Int.random(in: 1...3, using: &random)
            var limits = ShardLimits()
            limits.promptCountsMax = 2
            limits.leaveGrace = .seconds(Int.random(in: 0...4, using: &random))
            limits.webhookPause = .seconds(Int.random(in: 0...4, using: &random))
            limits.dueAtOnceMax = Int.random(in: 1...4, using: &random)
            var appLimits = AppLimits()
            appLimits.clientEventsPerSecond = 0
            appLimits.presenceMembersMax = 100
            world = ChannelWorld(loops: loops, limits: limits, appLimits: appLimits, slow: isSlow ? seed : nil) {
                $0.subscriptionCounts = true
            }
            for prefix in ["news-", "presence-", "private-", "cache-", "presence-cache-"] {
                names.append(world.name(prefix, onShard: Int.random(in: 0..<loops, using: &random)))
            }
            world.heardAnswer = { wire, key, index, eventsBefore in
                wire.heard.insert("\(eventsBefore) before \(key.name.string)", at: index)
            }
            world.published = { [unowned self] key, payload, except in
                let isServers = Int(payload) != nil
                guard let number = Int(payload) ?? ChannelHistories.number(in: payload) else {
                    Issue.record("no number: \(payload)")
                    return
                }
                published[key.name.string, default: []].append((number, isServers, except))
            }
        }

        /// Performs one random step.
        func step(loops: Int) throws {
            let wire = wires.randomElement(using: &random)
            let name = names[Int.random(in: names.indices, using: &random)]
            switch Int.random(in: 0..<20, using: &random) {
            case 0:
                guard wires.count < 8 else { return }
                let wire = world.connect(Int.random(in: 0..<loops, using: &random))
                wires.append(wire)
                users[ObjectIdentifier(wire)] = "u\(Int.random(in: 0..<4, using: &random))"
            case 1:
                guard let wire else { return }
                world.disconnect(wire, mayReturn: Bool.random(using: &random))
                wires.removeAll { $0 === wire }
                wanted[ObjectIdentifier(wire)] = nil
            case 2..<7:
                guard let wire else { return }
                // Which events come before a repeated answer is not known there.
                if isSlow, wanted[ObjectIdentifier(wire)]?.contains(name) == true { return }
                let isPresence = name.hasPrefix("presence-")
                try world.subscribe(name, user: isPresence ? users[ObjectIdentifier(wire)] : nil, wire)
                wanted[ObjectIdentifier(wire), default: []].insert(name)
            case 7, 8:
                guard let wire else { return }
                try world.unsubscribe(name, wire)
                // Clients forget what they received for a channel that they leave.
                wire.heard.append("left \(name)")
                wanted[ObjectIdentifier(wire), default: []].remove(name)
            case 9..<12:
                lastNumber += 1
                let except = Bool.random(using: &random) ? wire?.session.socketID : nil
                world.publish(name, "e", "\(lastNumber)", except: except, by: Int.random(in: 0..<loops, using: &random))
            case 12:
                guard let wire, name.hasPrefix("presence") || name.hasPrefix("private") else { return }
                lastNumber += 1
                try world.send(#"{"event":"client-e","channel":"\#(name)","data":\#(lastNumber)}"#, wire)
            case 13:
                // Slow, and never so slow that the shard gives up.
                world.advance(.milliseconds(Int.random(in: 0..<(isSlow ? 300 : 4_000), using: &random)))
            default:
                world.look(at: Int.random(in: 0..<loops, using: &random))
            }
        }
    }

    private static func number(in payload: String) -> Int? {
        payload.firstRange(of: #""data":""#).flatMap { Int(payload[$0.upperBound...].prefix { $0.isNumber }) }
    }

    @Test(arguments: 0..<ChannelHistories.seeds, [false, true])
    func everyClientHearsWhatItShould(_ seed: UInt64, isSlow: Bool) throws {
        let history = History(seed: seed, isSlow: isSlow)
        let world = history.world
        for _ in 0..<8 {
            for _ in 0..<120 { try history.step(loops: world.loopCount) }
            world.settle()
            // Beyond all graces and windows, twice: a report at the end of one may start another.
            for _ in 0..<2 {
                world.advance(.seconds(6))
                world.settle()
            }
            for name in history.names { try check(name, history, "seed \(seed) \(name)") }
        }
        for wire in history.wires { world.disconnect(wire) }
        history.wires = []
        world.settle()
        world.advance(.seconds(4))
        #expect(world.subscribersEverywhere(history.names) == 0, "seed \(seed)")
        world.advance(.seconds(1_800))
        world.settle()
        #expect(world.channelCount == 0 && world.cachedBytes == 0 && world.localCount == 0, "seed \(seed)")
        // Calls that were answered have deadlines that are not due yet.
        #expect(isSlow || world.nextDue == nil, "seed \(seed)")
        for name in history.names { try checkWebhooks(name, world, "seed \(seed) \(name)") }
    }

    /// A quiet point: nothing is in flight, and no grace period runs.
    private func check(_ name: String, _ history: History, _ note: String) throws {
        let world = history.world
        let inside = history.wires.filter { history.wanted[ObjectIdentifier($0)]?.contains(name) == true }
        let users = Set(inside.compactMap { history.users[ObjectIdentifier($0)] })
        let facts = world.facts(name)
        let counts = (facts.subscriptionCount, world.subscriberCount(name))
        try #require(counts == (inside.count, inside.count), "\(note): \(counts)")
        if name.hasPrefix("presence-") {
            try #require(world.users(name) == users && facts.userCount == users.count, "\(note) \(world.users(name))")
        }
        for wire in history.wires {
            let membership = try replay(wire, name, history, note)
            guard inside.contains(where: { $0 === wire }) else {
                try #require(membership == nil, "\(note): hears what it is not in")
                continue
            }
            let known = try #require(membership, "\(note): no answer")
            try hold(known, wire, name, history, note)
            if name.hasPrefix("presence-") {
                try #require(known.members == users, "\(note)")
            } else {
                try #require(known.count == inside.count, "\(note)")
            }
        }
    }

    /// What the client knows about the channel from its messages; nil when it is not subscribed.
    private func replay(
        _ wire: ChannelWorld.Wire, _ name: String, _ history: History, _ note: String
    ) throws -> Membership? {
        var membership: Membership?
        let me = history.users[ObjectIdentifier(wire)]
        for text in wire.heard {
            if text == "left \(name)" {
                membership = nil
                continue
            }
            if text.hasSuffix(" before \(name)"), let after = Int(text.prefix { $0.isNumber }) {
                // A repeated answer changes nothing.
                membership = membership ?? Membership()
                membership?.runs.append((after, []))
                continue
            }
            guard text.contains(#""channel":"\#(name)""#) else { continue }
            if text.contains("subscription_succeeded") {
                let members = Set(text.matches(of: /\\"(u[0-9])\\":/).map { String($0.output.1) })
                membership?.members = members
                continue
            }
            try #require(membership != nil, "\(note): before the answer: \(text)")
            if text.contains("member_added") || text.contains("member_removed") {
                let user = try #require(text.firstMatch(of: /user_id\\":\\"(u[0-9])/).map { String($0.output.1) })
                try #require(user != me, "\(note): told of itself")
                if text.contains("member_added") {
                    try #require(membership?.members.insert(user).inserted == true, "\(note)")
                } else {
                    try #require(membership?.members.remove(user) != nil, "\(note)")
                }
            } else if text.contains("subscription_count") {
                membership?.count = text.firstMatch(of: /count\\":([0-9]+)/).flatMap { Int($0.output.1) }
            } else if !text.contains("cache_miss") {
                let last = try #require(membership?.runs.indices.last)
                membership?.runs[last].events.append(try #require(Self.number(in: text), "\(note): \(text)"))
            }
        }
        return membership
    }

    /// After each answer come exactly the events that the shard sent until the next answer, except excluded ones. In a cache
    /// channel, the last earlier event of a backend comes first.
    private func hold(
        _ membership: Membership, _ wire: ChannelWorld.Wire, _ name: String, _ history: History, _ note: String
    ) throws {
        let all = history.published[name] ?? []
        for (number, run) in membership.runs.enumerated() {
            let end = number + 1 < membership.runs.count ? membership.runs[number + 1].after : all.count
            try #require(run.after <= end && end <= all.count, "\(note)")
            var expected = all[run.after..<end].filter { $0.except != wire.session.socketID }.map(\.number)
            if name.contains("cache"), let kept = all[..<run.after].last(where: \.isServers) {
                expected.insert(kept.number, at: 0)
            }
            try #require(run.events == expected, "\(note): answer \(number)")
        }
    }

    private func checkWebhooks(_ name: String, _ world: ChannelWorld, _ note: String) throws {
        var isOccupied = false
        var members: Set<String> = []
        for event in world.webhooks {
            switch event {
            case .channelOccupied(let channel) where channel.string == name:
                try #require(!isOccupied, "\(note)")
                isOccupied = true
            case .channelVacated(let channel) where channel.string == name:
                try #require(isOccupied && members.isEmpty, "\(note): \(members)")
                isOccupied = false
            case .memberAdded(let channel, let user) where channel.string == name:
                try #require(members.insert(user).inserted, "\(note)")
            case .memberRemoved(let channel, let user) where channel.string == name:
                try #require(members.remove(user) != nil, "\(note)")
            default: break
            }
        }
        #expect(!isOccupied && members.isEmpty, "\(note)")
    }
}
