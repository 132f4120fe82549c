import Bytes
import HubEngine
import Pusher
import Testing

/// Bounds of a presence channel: its users, the length of their list, and the cost of many leaving at once.
@Suite struct PresenceBoundTests {
    private func added(_ name: String, _ id: String, _ info: String = #"{\"n\":1}"#) -> String {
        #"{"event":"pusher_internal:member_added","channel":"\#(name)","#
            + #""data":"{\"user_id\":\"\#(id)\",\"user_info\":\#(info)}"}"#
    }

    private func removed(_ name: String, _ id: String) -> String {
        #"{"event":"pusher_internal:member_removed","channel":"\#(name)","data":"{\"user_id\":\"\#(id)\"}"}"#
    }

    @Test func membersAreBounded() throws {
        var limits = AppLimits()
        limits.presenceMembersMax = 2
        let world = ChannelWorld(loops: 2, appLimits: limits)
        let name = world.name("presence-", onShard: 0)
        let wires = (0..<4).map { world.connect($0 % 2) }
        for (wire, user) in zip(wires, ["a", "b", "b", "c"]) {
            try world.subscribe(name, user: user, wire)
            world.settle()
        }
        #expect(wires[2].heard[0].contains("subscription_succeeded"), "another connection of a user who is in")
        #expect(wires[3].heard.count == 1 && wires[3].heard[0].contains(#"\"status\":403"#))
        #expect(world.facts(name).subscriptionCount == 3 && world.subscriberCount(name) == 3)
        try world.unsubscribe(name, wires[3])
        world.disconnect(wires[3])
        world.settle()
        #expect(world.facts(name).subscriptionCount == 3, "one that was refused does not leave")
        try world.unsubscribe(name, wires[0])
        let late = world.connect(1)
        try world.subscribe(name, user: "c", late)
        world.settle()
        #expect(late.heard[0].contains("subscription_succeeded"))
    }

    /// Only connected users keep their slots. Users who have left lose theirs early to others, the first to leave first.
    @Test func aMemberThatHasLeftGivesWay() throws {
        var limits = AppLimits()
        limits.presenceMembersMax = 3
        let world = ChannelWorld(loops: 1, appLimits: limits)
        let wires = ["a", "b", "c", "d", "e"].map { ($0, world.connect(0)) }
        for (user, wire) in wires.prefix(3) { try world.subscribe("presence-x", user: user, wire) }
        world.disconnect(wires[1].1)
        world.advance(.seconds(1))
        world.disconnect(wires[2].1)
        wires[0].1.heard = []
        try world.subscribe("presence-x", user: "d", wires[3].1)
        #expect(wires[0].1.heard == [removed("presence-x", "b"), added("presence-x", "d")])
        #expect(world.users("presence-x") == ["a", "c", "d"])
        try world.subscribe("presence-x", user: "e", wires[4].1)
        #expect(world.users("presence-x") == ["a", "d", "e"])
        let late = world.connect(0)
        try world.subscribe("presence-x", user: "c", late)
        #expect(late.heard.count == 1 && late.heard[0].contains(#"\"status\":403"#), "all entries are held")
        world.advance(.seconds(5))
        #expect(wires[0].1.heard.count == 4 && world.users("presence-x") == ["a", "d", "e"])
        for wire in [wires[0], wires[3], wires[4]] { world.disconnect(wire.1) }
        world.advance(.seconds(3))
        #expect(world.channelCount == 0 && world.nextDue == nil)
    }

    @Test func infosAreBounded() throws {
        var limits = AppLimits()
        limits.presenceMemberBytesMax = 10
        let world = ChannelWorld(loops: 1, appLimits: limits)
        let wire = world.connect(0)
        try world.subscribe("presence-x", user: "a", info: #"{"a":"12"}"#, wire)
        try world.subscribe("presence-y", user: "a", info: #"{"a":"123"}"#, wire)
        #expect(wire.heard[0].contains("succeeded") && wire.heard[1].contains(#"\"status\":413"#))
    }

    /// The member list fits into what a connection can take.
    @Test func theListOfMembersIsBoundedInBytes() throws {
        let info = #"{"n":"\#(String(repeating: "x", count: 100))"}"#
        let size = MemberList.size("a", info: Array(info.utf8))
        for (bytesMax, last) in [(3 * size, "c"), (3 * size - 1, "b")] {
            var limits = ShardLimits()
            limits.membersBytesMax = bytesMax
            let world = ChannelWorld(loops: 1, limits: limits)
            let wires = ["a", "b", "c"].map { ($0, world.connect(0)) }
            for (user, wire) in wires { try world.subscribe("presence-x", user: user, info: info, wire) }
            let isIn = last == "c"
            #expect(wires[2].1.heard.count == 1)
            #expect(wires[2].1.heard[0].contains("subscription_succeeded") == isIn)
            #expect(wires[2].1.heard[0].contains(#"\"status\":403"#) != isIn)
            #expect(wires[2].1.heard[0].utf8.count <= bytesMax + 200)
            // Another connection of a member needs no room.
            let further = world.connect(0)
            try world.subscribe("presence-x", user: "a", info: info, further)
            #expect(further.heard.count == 1 && further.heard[0].contains("subscription_succeeded"))
            // Users who have left make room, one or several.
            world.disconnect(wires[1].1)
            let late = world.connect(0)
            try world.subscribe("presence-x", user: "d", info: info, late)
            #expect(late.heard.count == 1 && late.heard[0].contains("subscription_succeeded"))
            #expect(world.users("presence-x") == (isIn ? ["a", "c", "d"] : ["a", "d"]))
        }
    }

    /// A member's longer info needs room like a newcomer's, and never evicts the member itself.
    @Test func aLongerWordIsBoundedToo() throws {
        func info(_ count: Int) -> String { #"{"n":"\#(String(repeating: "x", count: count))"}"# }
        let size = MemberList.size("a", info: Array(info(100).utf8))
        for more in [10, 11] {
            var limits = ShardLimits()
            limits.membersBytesMax = 2 * size + 10
            let world = ChannelWorld(loops: 1, limits: limits)
            let (a, b, longer) = (world.connect(0), world.connect(0), world.connect(0))
            for (user, wire) in [("a", a), ("b", b)] {
                try world.subscribe("presence-x", user: user, info: info(100), wire)
            }
            a.heard = []
            try world.subscribe("presence-x", user: "b", info: info(100 + more), longer)
            #expect(longer.heard.count == 1 && longer.heard[0].contains("succeeded") == (more == 10))
            #expect(longer.heard[0].contains(#"\"status\":403"#) == (more == 11))
            #expect(world.users("presence-x") == ["a", "b"] && a.heard.isEmpty)
            #expect(world.facts("presence-x").subscriptionCount == (more == 10 ? 3 : 2))
            // A shorter info makes room for others.
            let shorter = world.connect(0)
            try world.subscribe("presence-x", user: "b", info: info(0), shorter)
            let room = 2 * size + 10 - size - MemberList.size("b", info: Array(info(0).utf8))
            let exact = 100 + room - size
            for (extra, isIn) in [(1, false), (0, true)] {
                let late = world.connect(0)
                try world.subscribe("presence-x", user: "c", info: info(exact + extra), late)
                #expect(late.heard[0].contains("succeeded") == isIn)
            }
        }
        // Users who have left make room for it, but not the member itself, who left first and is back.
        var limits = ShardLimits()
        limits.membersBytesMax = 3 * size
        let world = ChannelWorld(loops: 1, limits: limits)
        let wires = ["a", "b", "c"].map { ($0, world.connect(0)) }
        for (user, wire) in wires { try world.subscribe("presence-x", user: user, info: info(100), wire) }
        world.disconnect(wires[0].1)
        world.disconnect(wires[1].1)
        wires[2].1.heard = []
        let back = world.connect(0)
        try world.subscribe("presence-x", user: "a", info: info(101), back)
        #expect(back.heard.count == 1 && back.heard[0].contains("succeeded"))
        #expect(wires[2].1.heard == [removed("presence-x", "b")] && world.users("presence-x") == ["a", "c"])
        world.advance(.seconds(3))
        #expect(wires[2].1.heard.count == 1 && world.users("presence-x") == ["a", "c"])
        for wire in [wires[2].1, back] { world.disconnect(wire) }
        world.advance(.seconds(3))
        #expect(world.channelCount == 0 && world.nextDue == nil)
    }

    /// No user is evicted for a newcomer who is refused anyway.
    @Test func aMemberThatHasLeftStaysWhereThatIsNotEnough() throws {
        let info = #"{"n":"\#(String(repeating: "x", count: 100))"}"#
        var limits = ShardLimits()
        limits.membersBytesMax = 2 * MemberList.size("a", info: Array(info.utf8))
        let world = ChannelWorld(loops: 1, limits: limits)
        let (stays, leaves, wants) = (world.connect(0), world.connect(0), world.connect(0))
        try world.subscribe("presence-x", user: "a", info: info, stays)
        try world.subscribe("presence-x", user: "b", info: info, leaves)
        world.disconnect(leaves)
        stays.heard = []
        let longer = #"{"n":"\#(String(repeating: "x", count: 101))"}"#
        try world.subscribe("presence-x", user: "c", info: longer, wants)
        #expect(wants.heard.count == 1 && wants.heard[0].contains(#"\"status\":403"#))
        #expect(stays.heard.isEmpty && world.users("presence-x") == ["a", "b"])
        world.advance(.seconds(3))
        #expect(stays.heard == [removed("presence-x", "b")])
    }

    /// A user who comes and goes repeatedly leaves no entries.
    @Test func theFirstToLeaveIsFoundAmongManyWhoCameBack() throws {
        var limits = AppLimits()
        limits.presenceMembersMax = 3
        let world = ChannelWorld(loops: 1, appLimits: limits)
        let keeper = world.connect(0)
        try world.subscribe("presence-x", user: "k", keeper)
        for _ in 0..<100 {
            for user in ["a", "b"] {
                let wire = world.connect(0)
                try world.subscribe("presence-x", user: user, wire)
                world.disconnect(wire)
            }
        }
        let back = world.connect(0)
        try world.subscribe("presence-x", user: "a", back)
        let new = world.connect(0)
        try world.subscribe("presence-x", user: "c", new)
        #expect(world.users("presence-x") == ["a", "c", "k"])
    }

    @Test func departuresAreBounded() throws {
        var limits = ShardLimits()
        limits.departuresMax = 2
        let world = ChannelWorld(loops: 1, limits: limits) { $0.webhooks = [.presence] }
        let wires = ["a", "b", "c"].map { ($0, world.connect(0)) }
        for (user, wire) in wires { try world.subscribe("presence-x", user: user, wire) }
        for (_, wire) in wires.dropLast() { world.disconnect(wire) }
        #expect(world.users("presence-x") == ["a", "b", "c"])
        world.disconnect(wires[2].1)
        #expect(world.users("presence-x") == ["b", "c"], "the oldest goes at once")
        world.advance(.seconds(3))
        #expect(world.channelCount == 0)
    }

    /// Five thousand users leave at one moment: no report during the grace, then each is removed once, in bounded turns.
    @Test func aMassDisconnectLeavesNothing() throws {
        var appLimits = AppLimits()
        appLimits.presenceMembersMax = 10_000
        let world = ChannelWorld(loops: 2, appLimits: appLimits)
        let name = world.name("presence-", onShard: 1)
        // Fifty channels: otherwise a list of five thousand, sent five thousand times, would dominate.
        let names = (0..<50).map { "\(name)-\($0)" }
        let watcher = world.connect(0)
        try world.subscribe(names[0], user: "w", watcher)
        let wires = (0..<5_000).map { _ in world.connect(Int.random(in: 0...1)) }
        for (number, wire) in wires.enumerated() { try world.subscribe(names[number % 50], user: "u\(number)", wire) }
        world.settle()
        #expect(names.allSatisfy { world.facts($0).subscriptionCount == ($0 == names[0] ? 101 : 100) })
        watcher.heard = []
        world.webhooks = []
        for wire in wires { world.disconnect(wire) }
        world.settle()
        #expect(names.allSatisfy { world.facts($0).userCount == ($0 == names[0] ? 101 : 100) })
        #expect(names.allSatisfy { world.facts($0).subscriptionCount == ($0 == names[0] ? 1 : 0) })
        #expect(watcher.heard.isEmpty && world.webhooks.isEmpty)
        world.advance(.milliseconds(2_999))
        #expect(world.webhooks.isEmpty)
        world.advance(.milliseconds(1))
        world.settle()
        #expect(Set(watcher.heard).count == 100 && watcher.heard.count == 100)
        #expect(world.webhooks.count { $0.kind == .presence } == 5_000)
        #expect(world.webhooks.count { $0.kind == .channelExistence } == 49)
        #expect(
            world.users(names[0]) == ["w"] && world.channelCount == 2, "the one channel, at its shard and on a loop")
        world.disconnect(watcher)
        world.settle()
        world.advance(.seconds(3))
        #expect(world.channelCount == 0)
    }

    /// Each removed user is reported to all remaining ones: a turn ends after a number of reports.
    @Test func aTurnIsBoundedByWhoIsTold() throws {
        var limits = ShardLimits()
        limits.toldAtOnceMax = 6
        let world = ChannelWorld(loops: 1, limits: limits)
        let staying = (0..<3).map { _ in world.connect(0) }
        for (number, wire) in staying.enumerated() { try world.subscribe("presence-x", user: "s\(number)", wire) }
        let leaving = (0..<5).map { _ in world.connect(0) }
        for (number, wire) in leaving.enumerated() { try world.subscribe("presence-x", user: "u\(number)", wire) }
        for wire in leaving { world.disconnect(wire) }
        world.pass(to: try #require(world.nextDue))
        for left in [6, 4, 3] {
            world.turn(0)
            #expect(world.users("presence-x").count == left, "two, three times, each told to three")
        }
        #expect(world.nextDue == nil)
    }

    @Test func whatIsDueAtOnceIsDoneInTurns() throws {
        var limits = ShardLimits()
        limits.dueAtOnceMax = 10
        let world = ChannelWorld(loops: 1, limits: limits)
        let wires = (0..<15).map { _ in world.connect(0) }
        for (number, wire) in wires.enumerated() { try world.subscribe("presence-x", user: "u\(number)", wire) }
        for wire in wires { world.disconnect(wire) }
        let due = try #require(world.nextDue)
        world.pass(to: due)
        world.turn(0)
        #expect(world.users("presence-x").count == 5)
        world.turn(0)
        #expect(world.users("presence-x").isEmpty && world.nextDue == nil)
    }
}
