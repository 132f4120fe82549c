import Bytes
import Clock
import HubEngine
import Pusher
import TestSupport
import Testing

/// Several hubs and the state of users that they share, behind a way that delays, loses and doubles: once it is well, and
/// has said so, every loop with a watcher knows who is online, and nothing is left over.
@Suite struct LinkedUserHistories {
    /// One hub with one loop that owns its users, and two that have sessions.
    private final class Hub {
        let id: HubID
        var users: LinkedUsers
        /// Of each session: its loop and its user.
        var sessions: [(loop: Int, user: UserKey)] = []
        /// What loops watch: by loop and user, the serial, and what they were told.
        var watches: [Watch: (serial: UInt32, isOnline: Bool?)] = [:]
        private let sent: Sent

        final class Sent { var calls: [UserCall] = [] }

        init(_ number: UInt64) {
            let sent = Sent()
            id = HubID(number)
            users = LinkedUsers { sent.calls.append($0) }
            self.sent = sent
        }

        /// Does something, and gives what is to be sent.
        func input(_ input: (inout LinkedUsers, inout ContiguousArray<UserShard.Effect>) -> Void) -> [UserCall] {
            var effects = ContiguousArray<UserShard.Effect>()
            input(&users, &effects)
            for effect in effects {
                switch effect {
                case .answer(let loop, let news): for item in news { hear(item, loop) }
                case .tell(let loops, let news): for loop in 0..<2 where loops.contains(loop: loop) { hear(news, loop) }
                }
            }
            defer { sent.calls = [] }
            return sent.calls
        }

        /// As `Watchlists` does: changes before the answer are ignored, and answers to earlier watches.
        private func hear(_ news: UserNews, _ loop: Int) {
            let watch = Watch(loop: loop, user: news.user)
            guard let known = watches[watch] else { return }
            if let serial = news.serial, serial != known.serial || known.isOnline != nil { return }
            if news.serial == nil, known.isOnline == nil { return }
            watches[watch] = (known.serial, news.isOnline)
        }
    }

    private struct Watch: Hashable {
        let loop: Int
        let user: UserKey
    }

    @Test(arguments: 0..<100 as Range<UInt64>) func everyWatcherKnows(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
        let apps = KnownApps()
        apps.replace(
            App(
                id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
                features: AppFeatures(), limits: AppLimits()))
        var now: Instant = 1_000_000_000
        var state = MemoryUsers(apps)
        var hubs = [Hub(1), Hub(2), Hub(3)]
        var lastHub: UInt64 = 3
        var lastSerial: UInt32 = 0
        var way: [(to: HubID, bytes: [UInt8])] = []
        var lost = 0
        func tell(_ calls: [UserCall], _ hub: HubID) throws {
            for call in calls where !chance(lost) {
                let sent = try SentUserCall(SentUserCall(call, from: hub).encoded(apps), apps)
                for _ in 0..<(chance(lost) ? 2 : 1) {
                    var news = MemoryUsers.News()
                    state.call(sent.call, from: sent.hub, now: now, &news)
                    for (to, item) in news where !chance(lost) {
                        for _ in 0..<(chance(lost) ? 2 : 1) { way.append((to, item.encoded(apps))) }
                    }
                }
            }
        }
        func take() throws {
            guard let index = way.indices.randomElement(using: &random) else { return }
            let (to, bytes) = way.remove(at: index)
            guard let hub = hubs.first(where: { $0.id == to }) else { return }
            let news = try SharedUserNews(bytes, apps)
            try tell(hub.input { $0.told(news, &$1) }, hub.id)
        }
        func advance(_ time: Duration) throws {
            now = now.advanced(by: time)
            while let due = state.nextDue, due <= now { try tell([.due], hubs[0].id) }
            for hub in hubs {
                while let due = hub.users.nextDue, due <= now {
                    try tell(hub.input { users, _ in users.tick(now: now) }, hub.id)
                }
            }
        }
        func rest() throws {
            lost = 0
            way = []
            for hub in hubs { try tell(hub.input { users, _ in users.assertAll(apps, now: now) }, hub.id) }
            for _ in 0..<3 {
                while !way.isEmpty { try take() }
                try advance(.seconds(6))
            }
        }
        let all = (0..<4).map { UserKey("u\($0)", of: 0) }
        for round in 0..<6 {
            lost = chance(50) ? Int.random(in: 0..<20, using: &random) : 0
            for _ in 0..<120 {
                let hub = hubs[Int.random(in: hubs.indices, using: &random)]
                let (loop, user) = (Int.random(in: 0..<2, using: &random), all[Int.random(in: 0..<4, using: &random)])
                var requests: [UserRequest] = []
                switch Int.random(in: 0..<10, using: &random) {
                case 0, 1:
                    hub.sessions.append((loop, user))
                    requests = [.arrived(user)]
                case 2, 3:
                    guard let index = hub.sessions.indices.randomElement(using: &random) else { continue }
                    requests = [.departed(hub.sessions.remove(at: index).user, mayReturn: chance(50))]
                case 4:
                    let watch = Watch(loop: loop, user: user)
                    guard hub.watches[watch] == nil else { continue }
                    lastSerial += 1
                    hub.watches[watch] = (lastSerial, nil)
                    requests = [.watch(user, serial: lastSerial)]
                case 5:
                    guard hub.watches.removeValue(forKey: Watch(loop: loop, user: user)) != nil else { continue }
                    requests = [.unwatch(user)]
                case 6: try advance(.milliseconds(Int.random(in: 0..<4_000, using: &random)))
                default: try take()
                }
                try tell(hub.input { $0.received(requests, from: loop, now: now, &$1) }, hub.id)
            }
            if round % 3 == 2 {
                // A hub dies, and its successor has another number.
                lost = 0
                let dead = hubs.remove(at: 0)
                lastHub += 1
                hubs.append(Hub(lastHub))
                for hub in hubs { try tell([.reap(dead.id)], hub.id) }
            } else if round % 3 == 1 {
                // The state has lost all.
                state = MemoryUsers(apps)
            }
            try rest()
            for user in all {
                let isOnline = hubs.contains { $0.sessions.contains { $0.user == user } }
                for hub in hubs {
                    for (watch, known) in hub.watches where watch.user == user {
                        #expect(known.isOnline == isOnline, "seed \(seed) round \(round) \(user.id)")
                    }
                }
            }
        }
        for hub in hubs {
            let leaves = hub.sessions.map { UserRequest.departed($0.user) } + hub.watches.keys.map { .unwatch($0.user) }
            for loop in 0..<2 { try tell(hub.input { $0.received(leaves, from: loop, now: now, &$1) }, hub.id) }
        }
        try advance(.seconds(10))
        #expect(hubs.allSatisfy { $0.users.userCount == 0 } && state.userCount == 0, "seed \(seed)")
    }

    /// Each loop of a hub tells all of its own users again. Those of the other loop stay.
    @Test func loopsSpeakOfTheirOwnUsers() throws {
        let apps = KnownApps()
        apps.replace(
            App(
                id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
                features: AppFeatures(), limits: AppLimits()))
        var limits = ShardLimits()
        limits.leaveGrace = .zero
        let state = MemoryUsers(apps, limits: limits)
        let owners = [Hub(1), Hub(1)]
        var news = MemoryUsers.News()
        func tell(_ calls: [UserCall], _ owner: Int) {
            for call in calls { state.call(call, from: HubID(1), caller: owner, now: 1, &news) }
        }
        for (owner, hub) in owners.enumerated() {
            let users = (0..<3).map { UserKey("user-\(owner)-\($0)", of: 0) }
            let requests = users.flatMap { [UserRequest.arrived($0), .watch($0, serial: 1)] }
            tell(hub.input { $0.received(requests, from: 0, now: 1, &$1) }, owner)
        }
        news = []
        for (owner, hub) in owners.enumerated() {
            tell(hub.input { linked, _ in linked.assertAll(apps, now: 1) }, owner)
        }
        #expect(state.userCount == 6)
        #expect(news.count == 6 && news.allSatisfy { $0.news.news.isOnline && $0.news.news.serial != nil })
    }

    /// Ten thousand users are told in parts, none of them too long.
    @Test func manyUsersAreToldInParts() throws {
        let apps = KnownApps()
        apps.replace(
            App(
                id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
                features: AppFeatures(), limits: AppLimits()))
        let hub = Hub(1)
        let users = (0..<10_000).map { UserKey("user-\($0)", of: 0) }
        _ = hub.input { $0.received(users.map { .arrived($0) }, from: 0, now: 1, &$1) }
        let calls = hub.input { linked, _ in linked.assertAll(apps, now: 1) }
        var told: Set<UserKey> = []
        for case .only(_, let users) in calls {
            #expect(users.count < 2_500)
            told.formUnion(users)
        }
        #expect(calls.count == 6 && told == Set(users))
        let state = MemoryUsers(apps)
        var news = MemoryUsers.News()
        for call in calls { state.call(call, from: HubID(1), now: 1, &news) }
        #expect(state.userCount == 10_000)
    }
}
