import Clock
import HubEngine
import Pusher
import Testing

/// The grace period of users who have left: how many may have one, and which ends first.
@Suite struct LeaveGraceTests {
    /// A shard shared by several apps, whose connections come and go.
    private struct SharedShard {
        var shard: ChannelShard
        private let apps: [App]
        private var effects = ChannelShard.Effects()
        private var now: Instant = 1

        init(apps count: Int, departuresMax: Int = 1_000, silencesMax: Int? = nil) {
            var limits = ShardLimits()
            limits.departuresMax = departuresMax
            limits.silencesMax = silencesMax ?? limits.silencesMax
            shard = ChannelShard(loops: 1, limits: limits)
            var features = AppFeatures()
            features.subscriptionCounts = silencesMax != nil
            features.webhooks = silencesMax == nil ? [.channelExistence, .presence] : [.subscriptionCount]
            apps = (0..<count).map {
                App(
                    id: "\($0 + 1)", credentials: AppCredentials(key: "k\($0)", secret: "s"), index: $0,
                    ownsDatabase: false, features: features)
            }
        }

        private func key(_ name: String, of app: Int) throws -> ChannelKey {
            ChannelKey(app, try #require(ChannelName(name)))
        }

        /// A connection comes, optionally as a user, and ends.
        mutating func passBy(_ name: String, user: String? = nil, of app: Int) throws {
            try come(name, user: user, of: app)
            now += 1
            let exit = ChannelExit(key: try key(name, of: app), userID: user, mayReturn: true)
            shard.received(.exit(exit), from: 0, now: now, &effects)
        }

        mutating func come(_ name: String, user: String? = nil, of app: Int) throws {
            now += 1
            let entry = ChannelEntry(
                app: apps[app], key: try key(name, of: app), session: SessionID(slot: 0, generation: 1), serial: 1,
                member: user.map { PresenceMember(id: $0, info: []) })
            shard.received(.enter(entry), from: 0, now: now, &effects)
        }

        func users(_ name: String, of app: Int) throws -> [String] {
            shard.users(in: try key(name, of: app)).sorted()
        }

        /// The app's channels that were reported as vacated to its backend.
        func vacated(of app: Int) -> [String] {
            effects.compactMap { effect in
                guard case .webhook(let of, .channelVacated(let name)) = effect, of.index == app else { return nil }
                return name.string
            }
        }

        /// The numbers of subscribers of which the app's backend has heard.
        func counts(of app: Int) -> [Int] {
            effects.compactMap { effect in
                guard case .webhook(let of, .subscriptionCount(_, let count)) = effect, of.index == app else {
                    return nil
                }
                return count
            }
        }

        mutating func end() {
            while shard.nextDue != nil { shard.tick(now: now + 3_000_000_000, &effects) }
        }
    }

    /// Anyone may come to a public channel and leave, thousands of times.
    @Test func strangersOfOneAppEndNoGraceOfAnothers() throws {
        var shared = SharedShard(apps: 2, departuresMax: 4)
        try shared.come("presence-x", user: "w", of: 0)
        for user in ["a", "b"] { try shared.passBy("presence-x", user: user, of: 0) }
        try shared.passBy("room", of: 0)
        for number in 0..<100 { try shared.passBy("stranger-\(number)", of: 1) }
        #expect(try shared.users("presence-x", of: 0) == ["a", "b", "w"])
        #expect(shared.vacated(of: 0).isEmpty, "an app's channel is not pushed out by another's that has more")
        #expect(shared.vacated(of: 1) == (0..<97).map { "stranger-\($0)" })
        for number in 0..<100 { try shared.passBy("presence-y", user: "\(number)", of: 1) }
        #expect(try shared.users("presence-x", of: 0) == ["a", "b", "w"], "nor are its users")
        #expect(try shared.users("presence-y", of: 1) == ["98", "99"])
        shared.end()
        #expect(try shared.users("presence-x", of: 0) == ["w"])
        #expect(shared.shard.nextDue == nil && shared.shard.channelCount == 1)
    }

    /// At the bound all stay, of one app or several; one past it, the app with most loses its oldest.
    @Test func theAppWithMostLosesItsOldest() throws {
        var shared = SharedShard(apps: 3, departuresMax: 4)
        for user in ["a", "b", "c"] { try shared.passBy("presence-x", user: user, of: 2) }
        try shared.passBy("presence-x", user: "d", of: 1)
        #expect(try shared.users("presence-x", of: 2) == ["a", "b", "c"])
        try shared.passBy("presence-x", user: "e", of: 0)
        #expect(try shared.users("presence-x", of: 2) == ["b", "c"])
        #expect(try shared.users("presence-x", of: 1) == ["d"] && shared.users("presence-x", of: 0) == ["e"])
        // A returning user takes no slot.
        try shared.come("presence-x", user: "b", of: 2)
        try shared.passBy("presence-x", user: "f", of: 0)
        #expect(try shared.users("presence-x", of: 2) == ["b", "c"])
        #expect(try shared.users("presence-x", of: 0) == ["e", "f"])
    }

    /// Users who came back leave no entries in the eviction orders.
    @Test func theOrdersAreSwept() throws {
        var shared = SharedShard(apps: 2, departuresMax: 100)
        try shared.passBy("presence-x", user: "a", of: 0)
        for _ in 0..<10_000 { try shared.passBy("presence-x", user: "b", of: 1) }
        #expect(shared.shard.departureEntryCount < 8_400)
    }

    /// A channel whose number was told a moment ago stays silent, whatever another app's clients do.
    @Test func strangersOfOneAppEndNoSilenceOfAnothers() throws {
        var shared = SharedShard(apps: 2, silencesMax: 4)
        try shared.come("room", of: 0)
        for number in 0..<20 { try shared.come("stranger-\(number)", of: 1) }
        try shared.come("room", of: 0)
        #expect(shared.counts(of: 0) == [1])
        try shared.come("second", of: 0)
        #expect(shared.counts(of: 0) == [1, 1], "both have two")
        try shared.come("third", of: 0)
        #expect(shared.counts(of: 0) == [1, 1, 1, 2], "its own oldest has told what it had to tell")
    }
}
