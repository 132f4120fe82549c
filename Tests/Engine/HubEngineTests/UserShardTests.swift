import Clock
import HubEngine
import Testing

/// Which users are online, as one shard of users sees it. Times are in nanoseconds; the grace is 10.
@Suite(.timeLimit(.minutes(15))) struct UserShardTests {
    private struct World {
        var shard: UserShard

        init(grace: Int64 = 10, _ change: (inout ShardLimits) -> Void = { _ in }) {
            var limits = ShardLimits()
            limits.leaveGrace = .nanoseconds(grace)
            change(&limits)
            shard = UserShard(limits: limits)
        }

        mutating func hear(_ requests: [UserRequest], from loop: Int = 0, at now: Instant = 0) -> [String] {
            var effects: ContiguousArray<UserShard.Effect> = []
            shard.received(requests, from: loop, now: now, &effects)
            return effects.map(Self.text)
        }

        mutating func tick(at now: Instant) -> [String] {
            var effects: ContiguousArray<UserShard.Effect> = []
            shard.tick(now: now, &effects)
            return effects.map(Self.text)
        }

        private static func text(_ effect: UserShard.Effect) -> String {
            switch effect {
            case .answer(let loop, let news): "\(loop): " + news.map(text).joined(separator: " ")
            case .tell(let loops, let news):
                (0..<4).filter { loops.contains(loop: $0) }.map(String.init).joined(separator: ",") + ": " + text(news)
            }
        }

        private static func text(_ news: UserNews) -> String {
            (news.isOnline ? "+" : "-") + news.user.id + (news.serial.map { "#\($0)" } ?? "")
        }
    }

    private let anna = UserKey("anna", of: 0)
    private let bert = UserKey("bert", of: 0)

    @Test func aUserIsOnlineFromTheFirstConnectionToTheLast() {
        var world = World()
        #expect(world.hear([.watch(anna, serial: 1), .watch(bert, serial: 2)], from: 2) == ["2: -anna#1 -bert#2"])
        #expect(world.hear([.arrived(anna)], from: 0) == ["2: +anna"])
        #expect(world.hear([.arrived(anna)], from: 1) == [])
        #expect(world.hear([.watch(anna, serial: 3)], from: 3) == ["3: +anna#3"])
        #expect(world.hear([.departed(anna)], from: 0) == [])
        #expect(world.shard.nextDue == nil)
        #expect(world.hear([.departed(anna)], from: 1, at: 100) == [])
        #expect(world.shard.nextDue == 110)
        #expect(world.tick(at: 109) == [])
        #expect(world.tick(at: 110) == ["2,3: -anna"])
        #expect(world.shard.nextDue == nil)
        #expect(world.hear([.unwatch(anna), .unwatch(bert)], from: 2) == [])
        #expect(world.hear([.arrived(anna)], from: 2) == ["3: +anna"])
    }

    @Test func aReturnInTheGraceIsNoAbsence() {
        var world = World()
        _ = world.hear([.watch(anna, serial: 1), .arrived(anna)])
        #expect(world.hear([.departed(anna)], at: 0) == [])
        #expect(world.hear([.watch(anna, serial: 2)], from: 1, at: 5) == ["1: +anna#2"])
        #expect(world.hear([.arrived(anna)], at: 9) == [])
        #expect(world.tick(at: 10) == [])
        #expect(world.tick(at: 1_000) == [])
    }

    @Test func aReturnIsNotUndoneByTheOldDeadline() {
        var world = World()
        _ = world.hear([.watch(anna, serial: 1), .arrived(anna), .departed(anna)], at: 0)
        #expect(world.hear([.arrived(anna), .departed(anna)], at: 8) == [])
        #expect(world.tick(at: 10) == [])
        #expect(world.tick(at: 17) == [])
        #expect(world.tick(at: 18) == ["0: -anna"])
    }

    /// A user who says so goes offline at once; one who does so repeatedly is throttled.
    @Test func aDepartureByRequestIsOfflineAtOnce() {
        var world = World()
        _ = world.hear([.watch(anna, serial: 1), .arrived(anna)])
        #expect(world.hear([.departed(anna, mayReturn: false)], at: 0) == ["0: -anna"])
        #expect(world.hear([.watch(anna, serial: 2)], from: 1, at: 1) == ["1: -anna#2"])
        #expect(world.hear([.arrived(anna)], at: 2) == ["0,1: +anna"])
        #expect(world.tick(at: 10) == [], "the time of the first leave counts no more")
        for time in 3..<12 as Range<UInt64> {
            #expect(
                world.hear([.departed(anna, mayReturn: false), .arrived(anna)], at: Instant(nanoseconds: time)) == [])
        }
        #expect(world.hear([.departed(anna, mayReturn: false)], at: 12) == ["0,1: -anna"], "it was settled")
        #expect(world.tick(at: 22) == [] && world.shard.nextDue == nil)
        #expect(world.hear([.unwatch(anna)]) == [] && world.hear([.unwatch(anna)], from: 1) == [])
        #expect(world.shard.userCount == 0)
    }

    @Test func theLastConnectionSaysHowTheUserLeaves() {
        var world = World()
        _ = world.hear([.watch(anna, serial: 1), .arrived(anna), .arrived(anna)])
        #expect(world.hear([.departed(anna, mayReturn: false), .departed(anna)], at: 0) == [])
        #expect(world.tick(at: 10) == ["0: -anna"])
        _ = world.hear([.arrived(anna), .arrived(anna)], at: 10)
        #expect(world.hear([.departed(anna), .departed(anna, mayReturn: false)], at: 10) == ["0: -anna"])
        #expect(world.tick(at: 20) == [])
        // In the grace of a broken connection another comes, and says that it leaves.
        #expect(world.hear([.arrived(anna), .departed(anna)], at: 30) == ["0: +anna"])
        #expect(world.hear([.arrived(anna), .departed(anna, mayReturn: false)], at: 31) == ["0: -anna"])
    }

    @Test func withoutAGraceAUserGoesAtOnce() {
        var world = World(grace: 0)
        _ = world.hear([.watch(anna, serial: 1), .arrived(anna)])
        #expect(world.hear([.departed(anna)]) == ["0: -anna"])
        #expect(world.shard.nextDue == nil)
    }

    @Test func theFirstToLeaveIsDroppedWhenTooManyAreExpectedBack() {
        var world = World { $0.departuresMax = 2 }
        let users = (0..<4).map { UserKey("u\($0)", of: 0) }
        _ = world.hear(users.enumerated().map { .watch($1, serial: UInt32($0)) } + users.map { .arrived($0) })
        #expect(world.hear([.departed(users[0]), .departed(users[1])]) == [])
        #expect(world.hear([.departed(users[2])]) == ["0: -u0"])
        // A returned user no longer has a grace period.
        #expect(world.hear([.arrived(users[1]), .departed(users[3])]) == [])
        #expect(world.tick(at: 10) == ["0: -u2", "0: -u3"])
    }

    @Test func usersOfOneAppEndNoGraceOfAnothers() {
        var world = World { $0.departuresMax = 2 }
        let users = [UserKey("x", of: 1)] + (0..<3).map { UserKey("u\($0)", of: 0) }
        _ = world.hear(users.enumerated().map { .watch($1, serial: UInt32($0)) } + users.map { .arrived($0) })
        #expect(world.hear([.departed(users[0]), .departed(users[1])]) == [])
        #expect(world.hear([.departed(users[2])]) == ["0: -u0"])
        #expect(world.hear([.departed(users[3])]) == ["0: -u1"])
        #expect(world.tick(at: 10) == ["0: -x", "0: -u2"])
        #expect(world.shard.nextDue == nil && world.shard.leaveEntries == 0)
    }

    @Test func soManyGoInOneTurn() {
        var world = World { $0.dueAtOnceMax = 2 }
        let users = (0..<3).map { UserKey("u\($0)", of: 0) }
        _ = world.hear(users.enumerated().map { .watch($1, serial: UInt32($0)) } + users.map { .arrived($0) })
        _ = world.hear(users.map { .departed($0) })
        #expect(world.tick(at: 10) == ["0: -u0", "0: -u1"])
        #expect(world.shard.nextDue == 10)
        #expect(world.tick(at: 10) == ["0: -u2"])
        #expect(world.shard.nextDue == nil)
    }

    @Test func theAnswerKnowsAllOfItsMessage() {
        var world = World()
        // The loop ignores changes before its answer.
        #expect(world.hear([.watch(anna, serial: 1), .arrived(anna)]) == ["0: +anna", "0: +anna#1"])
    }

    @Test func usersOfTwoAppsAreTwo() {
        var world = World()
        _ = world.hear([.watch(UserKey("anna", of: 1), serial: 1)])
        #expect(world.hear([.arrived(anna)]) == [])
        #expect(world.hear([.arrived(UserKey("anna", of: 1))]) == ["0: +anna"])
    }

    /// Two encodings of one text are two users, as in the database.
    @Test func usersAreToldApartByTheirBytes() {
        var world = World()
        _ = world.hear([.watch(UserKey("caf\u{E9}", of: 0), serial: 1)])
        #expect(world.hear([.arrived(UserKey("cafe\u{301}", of: 0))]) == [])
        #expect(world.hear([.arrived(UserKey("caf\u{E9}", of: 0))]).count == 1)
    }

    @Test func aUserThatHasGoneLeavesNothing() {
        var world = World()
        for number in 0..<5_000 as Range<UInt64> {
            let user = UserKey("u\(number % 7)", of: 0)
            _ = world.hear([.arrived(user), .watch(bert, serial: 1)], at: Instant(nanoseconds: number))
            _ = world.hear(
                [.departed(user, mayReturn: number % 2 == 0), .unwatch(bert)], at: Instant(nanoseconds: number))
        }
        // The order of leaves may keep some stale entries, but not all.
        #expect(world.shard.leaveEntries <= 2 * 7 + 1_024 + 1)
        while world.shard.nextDue != nil { _ = world.tick(at: 5_010) }
        #expect(world.shard.userCount == 0)
        #expect(world.shard.leaveEntries == 0)
        // Leaves without an arrival are ignored.
        #expect(world.hear([.departed(anna), .unwatch(anna)]) == [])
        #expect(world.shard.userCount == 0)
    }
}
