import Bytes
import Clock
import HubEngine
import Pusher
import TestSupport
import Testing

/// What each version of the shared state of ordinary channels must do, written against the protocol. Several hubs share it;
/// a model says what is true.
@Suite struct SharedChannelsTests {
    enum Version: CaseIterable, Sendable {
        /// In memory, asked in place.
        case memory
        /// The same, each call and what it tells through their encoding.
        case encoded
        /// In Redis.
        case redis

        func make(_ limits: ShardLimits, _ app: App) throws -> Subject {
            if self == .redis { return Subject(try RedisChannels(limits, app), isEncoded: false, app) }
            let memory = MemoryChannels(limits: limits)
            memory.replace(app)
            return Subject(memory, isEncoded: self == .encoded, app)
        }
    }

    /// The state, and what it has told.
    final class Subject {
        let state: any SharedChannels
        private let apps = KnownApps()
        private let isEncoded: Bool
        private(set) var changes: [ChannelChange] = []
        private(set) var webhooks: [WebhookEvent] = []
        var now = Instant(nanoseconds: 1_000_000_000)
        private var lastNumber: UInt64 = 0

        init(_ state: any SharedChannels, isEncoded: Bool, _ app: App) {
            self.state = state
            self.isEncoded = isEncoded
            apps.replace(app)
        }

        @discardableResult
        func ask(_ call: ChannelCall, of hub: Int = 1) throws -> ChannelReply {
            lastNumber += 1
            var news = ContiguousArray<ChannelNews>()
            var sent = SentChannelCall(call, lastNumber, from: HubID(UInt64(hub)))
            if isEncoded { sent = try SentChannelCall(sent.encoded(apps), apps) }
            let reply = state.call(sent.call, sent.number, from: sent.hub, now: now, &news)
            for item in news {
                switch isEncoded ? try ChannelNews(item.encoded(apps), apps) : item {
                case .change(let change): changes.append(change)
                case .webhook(_, let event): webhooks.append(event)
                case .reply, .latest: break
                }
            }
            let known = try #require(reply)
            guard isEncoded else { return known }
            guard case .reply(_, let again) = try ChannelNews(ChannelNews.reply(1, known).encoded(apps), apps) else {
                return .unavailable(.unknown)
            }
            return again
        }

        func advance(_ time: Duration) throws {
            now = now.advanced(by: time)
            while let due = state.nextDue, due <= now {
                let told = changes.count + webhooks.count
                try ask(.due, of: 99)
                // Asking again does nothing.
                if told == changes.count + webhooks.count, state.nextDue == due { return }
            }
        }

        func facts(_ key: ChannelKey) throws -> ChannelFacts {
            if case .facts(let facts) = try ask(.facts(key), of: 99) { facts } else { ChannelFacts() }
        }

        func users(_ key: ChannelKey) throws -> Set<String> {
            if case .users(let users) = try ask(.users(key), of: 99) { Set(users) } else { [] }
        }
    }

    private static let presence = key("presence-x")
    private static let cache = key("cache-x")

    private static func key(_ name: String) -> ChannelKey {
        guard let name = ChannelName(name) else { preconditionFailure("no channel's name") }
        return ChannelKey(0, name)
    }

    private static func app(members: Int = 100) -> App {
        var features = AppFeatures()
        features.webhooks = [.channelExistence, .presence, .cacheChannels]
        features.subscriptionCounts = true
        var limits = AppLimits()
        limits.presenceMembersMax = members
        return App(
            id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
            features: features, limits: limits)
    }

    private func entering(_ user: String, info: String = "") -> Entering {
        Entering(member: PresenceMember(id: user, info: Array(info.utf8)))
    }

    private func entered(_ reply: ChannelReply) throws -> Entered {
        guard case .entered(let entered) = reply else { throw CancellationError() }
        return entered
    }

    // MARK: Order

    /// The reply's sequence parts what a newcomer knows from what it is told: neither overlap nor hole.
    @Test(arguments: Version.allCases) func aReplyStandsBetweenChanges(_ version: Version) throws {
        let state = try version.make(ShardLimits(), Self.app())
        let first = try entered(state.ask(.enter(Self.presence, entering("a"))))
        #expect(first.members?.each?.map(\.id) == ["a"] && state.changes.isEmpty, "nobody was there to be told")
        let second = try entered(state.ask(.enter(Self.presence, entering("b")), of: 2))
        #expect(Set(second.members?.each?.map(\.id) ?? []) == ["a", "b"])
        let added = try #require(state.changes.last)
        #expect(added.sequence <= second.sequence && added.sequence > first.sequence, "told to a, known to b")
        try state.ask(.publish(Self.presence, Publication(channel: Self.presence.name, event: "e", data: [])))
        let event = try #require(state.changes.last)
        #expect(event.follows == added.sequence && event.sequence > second.sequence)
        let again = try entered(state.ask(.enter(Self.presence, Entering(isRepeated: true)), of: 2))
        #expect(again.sequence == event.sequence && state.changes.last?.sequence == event.sequence)
    }

    /// A user with connections to two hubs is one member, and gone with the last.
    @Test(arguments: Version.allCases) func aUserOfTwoHubsIsOne(_ version: Version) throws {
        let state = try version.make(ShardLimits(), Self.app())
        try state.ask(.enter(Self.presence, entering("w")), of: 3)
        try state.ask(.enter(Self.presence, entering("a")), of: 1)
        try state.ask(.enter(Self.presence, entering("a")), of: 2)
        #expect(state.changes.count == 1)
        // A hub's connections are its own: another one cannot report their end.
        for _ in 0..<2 {
            try state.ask(.exit(ChannelExit(key: Self.presence, userID: "a", mayReturn: false)), of: 1)
        }
        #expect(try state.changes.count == 1 && state.facts(Self.presence).subscriptionCount == 2)
        try state.ask(.exit(ChannelExit(key: Self.presence, userID: "a", mayReturn: false)), of: 2)
        #expect(state.changes.count == 2 && state.changes[1].sequence > state.changes[0].sequence)
        try state.advance(.seconds(4))
        #expect(state.webhooks.filter { $0.kind == .presence }.count == 3)
    }

    // MARK: Hubs

    /// The dead hub's users get their grace, once; what comes of it later is dropped.
    @Test(arguments: Version.allCases) func aDeadHubIsReapedOnce(_ version: Version) throws {
        let state = try version.make(ShardLimits(), Self.app())
        try state.ask(.enter(Self.presence, entering("w")), of: 1)
        for user in ["a", "a", "b"] { try state.ask(.enter(Self.presence, entering(user)), of: 2) }
        try state.ask(.enter(Self.cache, Entering()), of: 2)
        try state.ask(.enter(Self.presence, entering("b")), of: 1)
        for _ in 0..<2 { try state.ask(.reap(HubID(2)), of: 1) }
        #expect(try state.facts(Self.presence).subscriptionCount == 2 && state.users(Self.presence) == ["w", "a", "b"])
        #expect(try state.facts(Self.cache).subscriptionCount == 0)
        let told = state.changes.count
        guard case .unavailable = try state.ask(.enter(Self.presence, entering("a")), of: 2) else {
            Issue.record("a dead hub was heard")
            return
        }
        try state.advance(.seconds(4))
        #expect(try state.users(Self.presence) == ["w", "b"])
        #expect(
            state.changes.dropFirst(told).contains { if case .memberRemoved("a") = $0.what { true } else { false } })
        try state.ask(.enter(Self.presence, entering("a")), of: 4)
        #expect(try state.users(Self.presence) == ["w", "a", "b"])
    }

    @Test(arguments: Version.allCases) func anAppThatIsNotKnownIsUnavailable(_ version: Version) throws {
        let state = try version.make(ShardLimits(), Self.app())
        let other = ChannelKey(1, Self.presence.name)
        var news = ContiguousArray<ChannelNews>()
        for call: ChannelCall in [
            .enter(other, Entering()), .assert(other, Attending()),
            .publish(other, Publication(channel: other.name, event: "e", data: [])),
        ] {
            guard case .unavailable = state.state.call(call, 1, from: HubID(1), now: Instant(nanoseconds: 1), &news)
            else {
                Issue.record("\(call)")
                continue
            }
        }
        #expect(news.isEmpty)
    }

    /// Ten thousand members, each with one connection, on two hubs.
    @Test func manyMembers() throws {
        var limits = ShardLimits()
        limits.promptInterval = .zero
        let state = try Version.memory.make(limits, Self.app(members: 10_000))
        for number in 0..<10_000 {
            guard case .entered = try state.ask(.enter(Self.presence, entering("u\(number)")), of: number % 2 + 1)
            else {
                Issue.record("number \(number) was refused")
                return
            }
        }
        guard case .refused(.tooManyMembers) = try state.ask(.enter(Self.presence, entering("one more"))) else {
            Issue.record("one more was let in")
            return
        }
        try state.ask(.reap(HubID(2)))
        try state.advance(.seconds(120))
        #expect(try state.users(Self.presence).count == 5_000 && state.facts(Self.presence).subscriptionCount == 5_000)
    }

    // MARK: Histories

    /// What each hub has, and who is a member by that.
    private struct Model {
        var connections: [Int: [ChannelKey: [String?]]] = [:]

        func count(_ key: ChannelKey) -> Int { connections.values.reduce(0) { $0 + ($1[key]?.count ?? 0) } }

        func users(_ key: ChannelKey) -> Set<String> {
            Set(connections.values.flatMap { $0[key] ?? [] }.compactMap(\.self))
        }

        func attending(_ hub: Int, _ key: ChannelKey) -> Attending {
            var attending = Attending()
            let all = connections[hub]?[key] ?? []
            attending.connections = all.count
            for user in Set(all.compactMap(\.self)).sorted() {
                attending.members.append(
                    Attending.Member(PresenceMember(id: user, info: []), connections: all.count { $0 == user }))
            }
            return attending
        }
    }

    /// Hubs come, die and are reaped; the state loses its last calls, and every hub asserts what it has.
    @Test(arguments: Version.allCases, 0..<40 as Range<UInt64>)
    func everyHubIsHeard(_ version: Version, seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let app = Self.app()
        let keys = [Self.presence, Self.cache, Self.key("news"), Self.key("presence-cache-y")]
        var state = try version.make(ShardLimits(), app)
        var model = Model()
        var log: [(call: ChannelCall, hub: Int, now: Instant)] = []
        var hubs = [1, 2, 3]
        var lastHub = 3
        for step in 0..<400 {
            let hub = hubs[Int.random(in: hubs.indices, using: &random)]
            let key = keys[Int.random(in: keys.indices, using: &random)]
            let user = key.name.kind.isPresence ? "u\(Int.random(in: 0..<5, using: &random))" : nil
            var call: ChannelCall?
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<4:
                call = .enter(key, user.map { entering($0) } ?? Entering())
                model.connections[hub, default: [:]][key, default: []].append(user)
            case 4..<7:
                guard let all = model.connections[hub]?[key], let user = all.randomElement(using: &random) else {
                    continue
                }
                call = .exit(ChannelExit(key: key, userID: user, mayReturn: Bool.random(using: &random)))
                if let index = all.firstIndex(of: user) { model.connections[hub]?[key]?.remove(at: index) }
            case 7, 8: call = .publish(key, Publication(channel: key.name, event: "e", data: [UInt8(step % 256)]))
            case 9: try state.advance(.milliseconds(Int.random(in: 0..<3_000, using: &random)))
            case 10 where hubs.count > 1 && step % 5 == 0:
                // Its successor has another number.
                call = .reap(HubID(UInt64(hub)))
                model.connections[hub] = nil
                hubs.removeAll { $0 == hub }
                lastHub += 1
                hubs.append(lastHub)
            case 11 where step % 4 == 0:
                // A replica takes over, without the last calls.
                let lost = Int.random(in: 0...min(8, log.count), using: &random)
                let now = state.now
                state = try version.make(ShardLimits(), app)
                for entry in log.dropLast(lost) {
                    state.now = entry.now
                    try state.ask(entry.call, of: entry.hub)
                }
                state.now = now
                for hub in Set(log.map(\.hub)).subtracting(hubs) {
                    try state.ask(.reap(HubID(UInt64(hub))), of: hubs[0])
                }
                for hub in hubs { for key in keys { try state.ask(.assert(key, model.attending(hub, key)), of: hub) } }
            default: call = .assert(key, model.attending(hub, key))
            }
            guard let call else { continue }
            let asker = if case .reap = call { hubs[0] } else { hub }
            log.append((call, asker, state.now))
            try state.ask(call, of: asker)
            for key in keys {
                let count = try state.facts(key).subscriptionCount
                try #require(count == model.count(key), "\(seed) \(step): \(call)")
            }
            #expect(try state.users(Self.presence).isSuperset(of: model.users(Self.presence)), "\(seed) \(step)")
        }
        try state.advance(.seconds(10))
        for key in keys where key.name.kind.isPresence {
            #expect(try state.users(key) == model.users(key), "\(seed)")
        }
        // Each channel's changes follow each other.
        for key in keys {
            let own = state.changes.filter { $0.key == key }
            for (one, next) in zip(own, own.dropFirst()) {
                #expect(one.sequence < next.sequence && one.sequence <= next.follows && next.follows < next.sequence)
            }
        }
        for hub in hubs { try state.ask(.reap(HubID(UInt64(hub))), of: 99) }
        try state.advance(.seconds(1_810))
        #expect(state.state.nextDue == nil && ((state.state as? MemoryChannels)?.channelCount ?? 0) == 0, "\(seed)")
        #expect(try (state.state as? RedisChannels)?.leftovers ?? [] == [], "\(seed)")
    }
}
