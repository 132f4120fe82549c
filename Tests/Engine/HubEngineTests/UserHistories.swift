import Clock
import HubEngine
import TestSupport
import Testing

/// Random histories of users over several loops, compared with a model that counts connections.
@Suite(.timeLimit(.minutes(15))) struct UserHistories {
    private static let names = ["a", "b", "c", "d", "e"]

    /// In any order of messages: once all are processed, every client knows the state of each user that it watches. It was
    /// never told the same state twice in a row, and nothing about other users.
    @Test(arguments: 0..<150 as Range<UInt64>) func everybodyIsToldHowThingsStand(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let world = UserWorld(loops: Int.random(in: 1...4, using: &random))
        /// The end of each user's last connection.
        var ends: [String: Instant] = [:]
        for _ in 0..<300 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1:
                let loop = Int.random(in: world.engines.indices, using: &random)
                let user = try #require(Self.names.randomElement(using: &random))
                let client = world.connect(user, loop)
                let watched = Self.names.shuffled(using: &random).prefix(Int.random(in: 0...3, using: &random))
                try world.signin(client, watching: Array(watched))
            case 2:
                guard let client = world.clients.randomElement(using: &random) else { continue }
                let watched = Self.names.shuffled(using: &random).prefix(Int.random(in: 0...3, using: &random))
                try world.signin(client, watching: Array(watched))
            case 3, 4:
                guard let client = world.clients.randomElement(using: &random) else { continue }
                world.disconnect(client)
                // By the shards' clock, the only one here.
                ends[client.user] = world.now
            case 5:
                // The time of a leave starts when its shard is told.
                world.settle()
                world.now += UInt64.random(in: 1...UserWorld.grace, using: &random)
                for loop in world.engines.indices { world.tick(loop) }
            case 6:
                world.settle()
                expectTruth(world, ends, "seed \(seed)")
            default:
                world.look(at: Int.random(in: world.engines.indices, using: &random))
            }
        }
        world.settle()
        expectTruth(world, ends, "seed \(seed)")
        for client in world.clients { world.disconnect(client) }
        world.settle()
        world.now += UserWorld.grace
        for loop in world.engines.indices { world.tick(loop) }
        #expect(world.userCount == 0, "seed \(seed)")
    }

    private func expectTruth(_ world: UserWorld, _ ends: [String: Instant], _ note: String) {
        for client in world.clients {
            #expect(Set(client.seen.keys) == Set(client.watched), "\(note)")
            #expect(client.repeats == 0, "\(note)")
            for user in client.watched {
                let isHere = world.clients.contains { $0.user == user }
                let isExpected = ends[user].map { world.now - $0 < UserWorld.grace } ?? false
                #expect(client.seen[user] == (isHere || isExpected), "\(note): \(user)")
            }
        }
    }

    /// Watchlists are switched off and on while users come and go: no user remains anywhere.
    @Test(arguments: 0..<50 as Range<UInt64>) func nobodyIsLeftBehindWhenAppsChange(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let world = UserWorld(loops: 3)
        let silent = App(
            id: world.app.id, credentials: world.app.credentials, index: world.app.index, ownsDatabase: false)
        for _ in 0..<200 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1:
                let user = try #require(Self.names.randomElement(using: &random))
                try world.signin(world.connect(user, Int.random(in: 0..<3, using: &random)), watching: ["a", "b"])
            case 2:
                if let client = world.clients.randomElement(using: &random) { world.disconnect(client) }
            case 3: world.replace(by: Bool.random(using: &random) ? silent : world.app)
            default: world.look(at: Int.random(in: 0..<3, using: &random))
            }
        }
        for client in world.clients { world.disconnect(client) }
        world.settle()
        world.now += UserWorld.grace
        for loop in 0..<3 { world.tick(loop) }
        #expect(world.userCount == 0, "seed \(seed)")
    }
}
