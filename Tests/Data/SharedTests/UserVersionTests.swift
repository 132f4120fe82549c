import Clock
import HubEngine
import Pusher
import Shared
import TestSupport
import Testing

/// The versions of the shared state of users tell alike, call by call: the one in memory is the model.
@Suite struct UserVersionTests {
    /// The model, and Redis.
    private final class Both {
        let apps = KnownApps()
        let model: MemoryUsers
        let subject: RedisUsers
        var now = Instant(nanoseconds: 1_000_000_000)
        private var versions: [UserKey: UInt64] = [:]

        init(_ limits: ShardLimits = ShardLimits(), buckets: Int = 3) throws {
            for (index, id) in ["1", "other"].enumerated() {
                apps.replace(
                    App(
                        id: id, credentials: AppCredentials(key: "k\(index)", secret: "s"), index: index,
                        ownsDatabase: false, features: AppFeatures(), limits: AppLimits()))
            }
            model = MemoryUsers(apps, limits: limits)
            subject = try RedisUsers(limits, apps, buckets: buckets)
        }

        /// In no order: the buckets end their graces one after the other, and hubs are told in any order.
        func tell(_ call: UserCall, _ hub: Int, caller: Int = 0) throws -> (model: [String], subject: [String]) {
            var news = MemoryUsers.News()
            let hub = HubID(UInt64(hub))
            model.call(call, from: hub, caller: caller, now: now, &news)
            let told = try subject.call(call, from: hub, caller: caller, now: now)
            for (_, item) in told {
                #expect(item.version > versions[item.news.user] ?? 0, "versions rise")
                versions[item.news.user] = item.version
            }
            return (words(news), words(told))
        }

        private func words(_ news: MemoryUsers.News) -> [String] {
            news.map { hub, item in
                let news = item.news
                return "\(hub.number) \(news.user.app):\(news.user.id) \(news.isOnline) \(news.serial ?? 0)"
            }
            .sorted()
        }

        /// Time passes, and what is due ends.
        func advance(_ time: Duration, _ hub: Int) throws -> (model: [String], subject: [String]) {
            now = now.advanced(by: time)
            var told: (model: [String], subject: [String]) = ([], [])
            while [model.nextDue, subject.nextDue].contains(where: { $0.map { $0 <= now } ?? false }) {
                let (one, other) = try tell(.due, hub)
                told.model += one
                told.subject += other
            }
            return (told.model.sorted(), told.subject.sorted())
        }
    }

    @Test(arguments: 0..<80 as Range<UInt64>) func bothTellAlike(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func pick(_ range: Range<Int>) -> Int { Int.random(in: range, using: &random) }
        var limits = ShardLimits()
        limits.leaveGrace = [.zero, .seconds(3)][pick(0..<2)]
        limits.dueAtOnceMax = [1, 256][pick(0..<2)]
        let both = try Both(limits, buckets: pick(1..<5))
        let ids = ["", "a", "b:ü", "c\u{0}\n", "d%d", String(repeating: "e", count: 200)]
        let users = ids.map { UserKey($0, of: 0) } + ids.map { UserKey($0, of: 1) }
        let few = Int.random(in: 2...12, using: &random)
        // A user is owned by one of a hub's two loops, which others need not know.
        func owner(_ user: UserKey, _ hub: Int) -> Int { (user.id.utf8.count + user.app + hub) % 2 }
        var (hubs, dead, lastHub, lastSerial) = ([1, 2, 3], [Int](), 3, UInt32(0))
        for step in 0..<400 {
            let (hub, user) = (pick(0..<40) == 0 ? dead.randomElement(using: &random) : nil, users[pick(0..<few)])
            let from = hub ?? hubs[pick(0..<3)]
            var call: UserCall?
            var caller = owner(user, from)
            switch pick(0..<32) {
            case 0..<8: call = .arrived(user)
            case 8..<14: call = .departed(user, mayReturn: pick(0..<2) == 0)
            case 14..<18:
                lastSerial = pick(0..<9) == 0 ? .max : lastSerial &+ 1
                call = .watch(user, serial: lastSerial)
            case 18..<20: call = .unwatch(user)
            case 20..<22:
                caller = pick(0..<2)
                let part = UserPart(0, of: pick(1..<8))
                let meant = UserPart(pick(0..<part.count), of: part.count)
                let all = users.filter { user in
                    guard let app = both.apps[user.app], owner(user, from) == caller else { return false }
                    return meant.places.contains(UInt64(UserPlace(user, ofApp: app.id).number)) && pick(0..<2) == 0
                }
                call = .only(meant, all)
            case 22 where hub == nil && pick(0..<6) == 0 && lastHub < 12:
                lastHub += 1
                let place = pick(0..<3)
                dead.append(hubs[place])
                call = .reap(HubID(UInt64(hubs[place])))
                hubs[place] = lastHub
            case 22 where !dead.isEmpty: call = .reap(HubID(UInt64(dead[pick(0..<dead.count)])))
            case 23: call = .due
            default: break
            }
            both.now = both.now.advanced(by: .milliseconds(1))
            let told =
                try call.map { try both.tell($0, from, caller: caller) }
                ?? both.advance(.milliseconds(pick(0..<2_500)), hubs[0])
            try #require(told.model == told.subject, "\(seed) \(step): \(call.map { "\($0)" } ?? "time")")
        }
        for hub in hubs where pick(0..<2) == 0 {
            for caller in 0..<2 {
                let (one, other) = try both.tell(.only(UserPart(0, of: 1), []), hub, caller: caller)
                #expect(one == other)
            }
        }
        for hub in hubs {
            let (one, other) = try both.tell(.reap(HubID(UInt64(hub))), 99)
            #expect(one == other)
        }
        let (one, other) = try both.advance(.seconds(10), 99)
        #expect(one == other)
        #expect(try both.subject.leftovers == [] && both.model.userCount == 0 && both.subject.nextDue == nil)
    }

    /// Worst case: a hub with thousands of users is dead, or has lost them all. No script ends more than some of them.
    @Test(arguments: [true, false]) func manyAreLostPageByPage(isReaped: Bool) throws {
        var limits = ShardLimits()
        limits.leaveGrace = .zero
        let both = try Both(limits)
        let users = (0..<3_000).map { UserKey("user-\($0)", of: $0 % 2) }
        _ = try both.tell(.only(UserPart(0, of: 1), users), 1)
        for (number, user) in users.enumerated() where number % 3 == 0 {
            let (one, other) = try both.tell(.watch(user, serial: 7), 2)
            #expect(one == other && one.count == 1)
        }
        // Of one who is back before its page comes nothing is lost.
        let call: UserCall = isReaped ? .reap(HubID(1)) : .only(UserPart(0, of: 1), [users[3]])
        var told = try both.tell(call, isReaped ? 2 : 1)
        #expect(told.subject.count < told.model.count)
        #expect(both.subject.nextDue == both.now)
        let rest = try both.advance(.milliseconds(1), 2)
        told.subject += rest.subject
        #expect(told.model == told.subject.sorted() && told.model.count == (isReaped ? 1_000 : 999))
        #expect(both.subject.toldAtOnceMax <= 256)
    }

    /// What a hub says of a user whom it has lost, but whose page has not come, counts from the state that follows.
    @Test func aUserIsBackBeforeItsPageComes() throws {
        let both = try Both(buckets: 1)
        let users = (0..<2_000).map { UserKey("user-\($0)", of: 0) }
        let whole = UserPart(0, of: 1)
        _ = try both.tell(.only(whole, users), 1)
        for user in users { _ = try both.tell(.watch(user, serial: 1), 1) }
        _ = try both.tell(.only(whole, []), 1)
        for user in users.prefix(1_000) {
            let (one, other) = try both.tell(.arrived(user), 1)
            #expect(one == other && one == [])
        }
        _ = try both.advance(.zero, 2)
        for user in users {
            let (one, other) = try both.tell(.watch(user, serial: 1), 2)
            #expect(one == other && one.count == 1)
        }
        // The hub that has lost all watches nobody any more, and so is not told.
        let ended = try both.advance(.seconds(4), 2)
        #expect(ended.model == ended.subject && ended.model.count == 1_000)
        // Some are lost a second time, before the pages of the first.
        _ = try both.tell(.only(whole, Array(users.prefix(500))), 1)
        _ = try both.tell(.reap(HubID(1)), 2)
        _ = try both.advance(.zero, 2)
        let (one, other) = try both.advance(.seconds(4), 2)
        #expect(one == other && one.count == 1_000)
        for user in users { _ = try both.tell(.unwatch(user), 2) }
        #expect(try both.subject.leftovers == [] && both.model.userCount == 0)
    }

    /// One more than may wait ends the oldest wait.
    @Test func theFirstToLeaveIsDroppedWhenTooManyAreExpectedBack() throws {
        var limits = ShardLimits()
        limits.departuresMax = 2
        let both = try Both(limits, buckets: 1)
        let users = (0..<4).map { UserKey("u\($0)", of: 0) }
        for user in users {
            _ = try both.tell(.arrived(user), 1)
            _ = try both.tell(.watch(user, serial: 1), 2)
        }
        for user in users {
            both.now = both.now.advanced(by: .milliseconds(1))
            let (one, other) = try both.tell(.departed(user, mayReturn: true), 1)
            #expect(one == other)
        }
        let (one, other) = try both.advance(.seconds(4), 2)
        #expect(one == other && one.count == 2)
    }

    /// A user of an app that is not served here is nobody's, and bytes that no script sends are refused.
    @Test func whatIsNotKnownIsRefused() throws {
        let sent = SentUserCall(.arrived(UserKey("a", of: 5)), from: HubID(1))
        #expect(throws: SharedProblem.unknownApp) {
            try SharedCommand.commands(sent, caller: 0, KnownApps(), buckets: 4)
        }
        let only = SentUserCall(.only(UserPart(0, of: 1), [UserKey("a", of: 5)]), from: HubID(1))
        let commands = try SharedCommand.commands(only, caller: 0, KnownApps(), buckets: 4)
        #expect(commands.map(\.bucket?.number) == [0, 1, 2, 3] && commands.allSatisfy { $0.arguments.count == 8 })
        #expect(throws: SharedProblem.malformed) { try UserReply(.integer(-2)) }
        #expect(throws: SharedProblem.malformed) { try UserReply(.null) }
    }

    /// A part touches few buckets: thousands of parts are little more than thousands of commands.
    @Test func partsAndBucketsAreRangesOfOneOrder() throws {
        for (parts, buckets) in [(1, 64), (64, 64), (500, 64), (7, 3), (3, 7)] {
            let commands = try (0..<parts).flatMap { number in
                let sent = SentUserCall(.only(UserPart(number, of: parts), []), from: HubID(1))
                return try SharedCommand.commands(sent, caller: 1, KnownApps(), buckets: buckets)
            }
            #expect(commands.count < parts + buckets)
            // One after the other they are all places of the caller.
            let bounds = commands.map { $0.arguments[6...7].map { UInt64(String(decoding: $0, as: UTF8.self)) ?? 0 } }
            #expect(bounds.first?[0] == 1 << 32 && bounds.last?[1] == 2 << 32)
            #expect(zip(bounds, bounds.dropFirst()).allSatisfy { $0[1] == $1[0] })
        }
    }
}
