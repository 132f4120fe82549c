import Bytes
import HubEngine
import Pusher
import Testing

/// The users of a presence channel, as reported to members, the app's backend and the HTTP API.
@Suite struct PresenceTests {
    private func added(_ name: String, _ id: String, _ info: String = #"{\"n\":1}"#) -> String {
        #"{"event":"pusher_internal:member_added","channel":"\#(name)","#
            + #""data":"{\"user_id\":\"\#(id)\",\"user_info\":\#(info)}"}"#
    }

    private func removed(_ name: String, _ id: String) -> String {
        #"{"event":"pusher_internal:member_removed","channel":"\#(name)","data":"{\"user_id\":\"\#(id)\"}"}"#
    }

    private func succeeded(_ name: String, only id: String, _ info: String = #"{\"n\":1}"#) -> String {
        #"{"event":"pusher_internal:subscription_succeeded","channel":"\#(name)","data":"{\"presence\":{"#
            + #"\"ids\":[\"\#(id)\"],\"hash\":{\"\#(id)\":\#(info)},\"count\":1}}"}"#
    }

    private func name(_ text: String) throws -> ChannelName { try #require(ChannelName(text)) }

    /// The first member is reported to no one; the second to the first, but not to itself.
    @Test(arguments: [0, 1]) func membersAreToldOfEachOther(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: shard)
        let (one, two) = (world.connect(0), world.connect(1))
        try world.subscribe(name, user: "7", one)
        world.settle()
        #expect(one.heard == [succeeded(name, only: "7")])
        try world.subscribe(name, user: "8", info: "[]", two)
        world.settle()
        #expect(one.heard.dropFirst() == [added(name, "8", "[]")])
        #expect(two.heard.count == 1 && two.heard[0].contains(#"\"count\":2"#))
        try world.unsubscribe(name, two)
        world.settle()
        #expect(one.heard.dropFirst(2) == [removed(name, "8")], "who says so is gone at once")
        #expect(world.facts(name).userCount == 1 && world.facts(name).subscriptionCount == 1)
        let added: [WebhookEvent] = [
            .channelOccupied(try self.name(name)), .memberAdded(try self.name(name), userID: "7"),
            .memberAdded(try self.name(name), userID: "8"),
        ]
        world.advance(.milliseconds(2_999))
        #expect(world.webhooks == added, "the backend hears of it when the member is not back")
        world.advance(.milliseconds(1))
        #expect(world.webhooks == added + [.memberRemoved(try self.name(name), userID: "8")])
    }

    @Test func aUserIsAddedByTheFirstConnectionAndRemovedAfterTheLast() throws {
        let world = ChannelWorld(loops: 3)
        let name = world.name("presence-", onShard: 1)
        let watcher = world.connect(2)
        try world.subscribe(name, user: "w", watcher)
        world.settle()
        watcher.heard = []
        let wires = [world.connect(0), world.connect(1), world.connect(2)]
        for (number, wire) in wires.enumerated() {
            try world.subscribe(name, user: "u", info: #"{"v":\#(number)}"#, wire)
            world.settle()
        }
        #expect(watcher.heard == [added(name, "u", #"{\"v\":0}"#)], "added once, whatever the others say")
        for (number, wire) in wires.enumerated() { #expect(wire.heard[0].contains(#"\"u\":{\"v\":\#(number)}"#)) }
        #expect(world.facts(name).userCount == 2 && world.facts(name).subscriptionCount == 4)
        for wire in wires.dropLast() { try world.unsubscribe(name, wire) }
        world.settle()
        #expect(watcher.heard.count == 1)
        try world.unsubscribe(name, wires[2])
        world.settle()
        #expect(watcher.heard.dropFirst() == [removed(name, "u")])
    }

    /// Newcomers get the info of the user's newest subscription, as long as the user is a member.
    @Test(arguments: [0, 1]) func theNewestWordStands(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: shard)
        let (watcher, old, new) = (world.connect(0), world.connect(0), world.connect(1))
        try world.subscribe(name, user: "w", watcher)
        try world.subscribe(name, user: "u", info: #"{"v":0}"#, old)
        world.settle()
        // Written once, and kept from the second on.
        for _ in 0..<2 {
            try world.subscribe(name, user: "w", watcher)
            world.settle()
            #expect(watcher.heard.last?.contains(#"\"u\":{\"v\":0}"#) == true)
        }
        watcher.heard = []
        try world.subscribe(name, user: "u", info: #"{"v":1}"#, new)
        world.settle()
        #expect(watcher.heard.isEmpty && new.heard.count == 1 && new.heard[0].contains(#"\"u\":{\"v\":1}"#))
        #expect(new.heard[0].contains(#"\"count\":2"#) && !new.heard[0].contains(#"\"v\":0"#))
        for wire in [watcher, old] {
            try world.subscribe(name, user: "any", wire)
            world.settle()
            #expect(wire.heard.last?.contains(#"\"u\":{\"v\":1}"#) == true, "who asks again hears the same")
        }
        // The info stays when its connection ends, also when only the older connection remains.
        try world.unsubscribe(name, new)
        world.settle()
        let late = world.connect(1)
        try world.subscribe(name, user: "l", late)
        world.settle()
        #expect(late.heard[0].contains(#"\"u\":{\"v\":1}"#) && world.users(name) == ["l", "u", "w"])
    }

    /// A client may subscribe again without unsubscribing: if signed, and for the same user, its info counts from then on.
    @Test(arguments: [0, 1]) func aRepeatedSubscribeMayBringANewWord(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: shard)
        let (watcher, wire) = (world.connect(0), world.connect(1))
        try world.subscribe(name, user: "w", watcher)
        try world.subscribe(name, user: "u", info: #"{"v":0}"#, wire)
        world.settle()
        watcher.heard = []
        try world.subscribe(name, user: "u", info: #"{"v":1}"#, wire)
        world.settle()
        #expect(wire.heard.last?.contains(#"\"u\":{\"v\":1}"#) == true && watcher.heard.isEmpty)
        // Without a signature, it only gets the answer again.
        let unsigned = #"{\"user_id\":\"u\",\"user_info\":{\"v\":2}}"#
        for auth in ["", #","auth":"k:0000""#] {
            try world.send(
                #"{"event":"pusher:subscribe","data":{"channel":"\#(name)","channel_data":"\#(unsigned)"\#(auth)}}"#,
                wire)
            world.settle()
            #expect(wire.heard.last?.contains(#"\"u\":{\"v\":1}"#) == true)
        }
        // For another user, it changes nothing.
        try world.subscribe(name, user: "w", info: #"{"v":3}"#, wire)
        world.settle()
        let late = world.connect(0)
        try world.subscribe(name, user: "l", late)
        world.settle()
        #expect(late.heard[0].contains(#"\"u\":{\"v\":1}"#) && !late.heard[0].contains(#"\"v\":3"#))
        #expect(world.facts(name).subscriptionCount == 3 && world.users(name) == ["l", "u", "w"])
    }

    /// A page is reloaded with a new user name: no leave is reported, and newcomers get the new name.
    @Test(arguments: [0, 1]) func theNewestWordStandsWithinTheGrace(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: shard)
        let (watcher, old) = (world.connect(0), world.connect(1))
        try world.subscribe(name, user: "w", watcher)
        try world.subscribe(name, user: "u", info: #"{"v":0}"#, old)
        world.settle()
        watcher.heard = []
        world.webhooks = []
        for version in 1...3 {
            let last = version == 1 ? old : world.connect(version % 2)
            world.disconnect(last)
            world.settle()
            world.advance(.seconds(1))
            let back = world.connect(version % 2)
            // The last info has no `user_info` at all.
            let data = version == 3 ? #"{"user_id":"u"}"# : #"{"user_id":"u","user_info":{"v":\#(version)}}"#
            try world.subscribe(name, channelData: data, back)
            world.settle()
            #expect(back.heard[0].contains(version == 3 ? #"\"u\":{}"# : #"\"u\":{\"v\":\#(version)}"#))
            world.disconnect(back)
            world.settle()
        }
        #expect(watcher.heard.isEmpty && world.webhooks.isEmpty)
        // After an unsubscribe, the user is reported again, with the new info.
        let again = world.connect(0)
        try world.subscribe(name, user: "u", info: #"{"v":4}"#, again)
        world.settle()
        world.advance(.seconds(4))
        try world.unsubscribe(name, again)
        try world.subscribe(name, user: "u", info: #"{"v":5}"#, again)
        world.settle()
        #expect(watcher.heard == [removed(name, "u"), added(name, "u", #"{\"v\":5}"#)])
        #expect(again.heard.last?.contains(#"\"u\":{\"v\":5}"#) == true)
    }

    @Test func idsMayBeNumbersAndInfosAreOptional() throws {
        let world = ChannelWorld(loops: 1)
        let (one, two, three) = (world.connect(0), world.connect(0), world.connect(0))
        try world.subscribe("presence-x", channelData: #"{"user_id":10}"#, one)
        #expect(one.heard == [succeeded("presence-x", only: "10", "{}")])
        try world.subscribe("presence-x", user: "10", two)
        #expect(one.heard.count == 1 && world.users("presence-x") == ["10"], "one user, as a number and as a text")
        try world.subscribe("presence-x", channelData: #"{"user_id":"a\"\\é","user_info":{"q":"\""}}"#, three)
        #expect(one.heard.last?.hasPrefix(added("presence-x", #"a\\\"\\\\é"#, #"{\"q\":\"\\\"\"}"#)) == true)
    }

    @Test(arguments: [
        "{}", "[]", #"{"user_id":""}"#, #"{"user_id":1.5}"#, #"{"user_id":null}"#, #"{"user_id":{}}"#, "x",
        #"{"user_id":"1","user_id":"2"}"#, #"{"user_id":"\#(String(repeating: "x", count: 129))"}"#,
    ])
    func aMemberNeedsAnID(_ data: String) throws {
        let world = ChannelWorld(loops: 1)
        let wire = world.connect(0)
        try world.subscribe("presence-x", channelData: data, wire)
        #expect(wire.heard.count == 1 && wire.heard[0].contains(#"\"status\":400"#), "\(wire.heard)")
        #expect(world.channelCount == 0)
    }

    @Test func theSignedInUserIsTheMemberWithoutChannelData() throws {
        let world = ChannelWorld(loops: 1)
        let wire = world.connect(0)
        try world.subscribe("presence-x", wire)
        #expect(wire.heard[0].contains(#"\"status\":401"#))
        try world.signin("u1", more: #","user_info":{"name":"N"}"#, wire)
        try world.subscribe("presence-x", wire)
        #expect(wire.heard.last == succeeded("presence-x", only: "u1", #"{\"name\":\"N\"}"#))
    }

    @Test func channelDataIsCoveredByTheSignature() throws {
        let world = ChannelWorld(loops: 1)
        let wire = world.connect(0)
        let auth = world.app.credentials.sign(
            .channel(try name("presence-x"), channelData: nil), socketID: wire.session.socketID)
        try world.send(
            #"{"event":"pusher:subscribe","data":{"channel":"presence-x","auth":"\#(auth)","channel_data":"{\"user_id\":1}"}}"#,
            wire)
        #expect(wire.heard[0].contains(#"\"status\":401"#))
    }

    // MARK: The grace

    /// A connection that ends may come back: nothing is reported, and no ghost remains.
    @Test(arguments: [0, 1]) func aUserWhoComesBackWasNeverGone(_ shard: Int) throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: shard)
        let (watcher, old) = (world.connect(0), world.connect(1))
        for (wire, user) in [(watcher, "w"), (old, "u")] { try world.subscribe(name, user: user, wire) }
        world.settle()
        watcher.heard = []
        world.webhooks = []
        world.disconnect(old)
        world.settle()
        world.advance(.milliseconds(2_999))
        #expect(world.users(name) == ["w", "u"] && world.facts(name).subscriptionCount == 1)
        let new = world.connect(0)
        try world.subscribe(name, user: "u", new)
        world.settle()
        world.advance(.seconds(10))
        #expect(watcher.heard.isEmpty && world.webhooks.isEmpty)
        world.disconnect(new)
        world.settle()
        world.advance(.seconds(3))
        world.settle()
        #expect(watcher.heard == [removed(name, "u")])
        #expect(world.webhooks == [.memberRemoved(try self.name(name), userID: "u")])
        #expect(world.users(name) == ["w"])
    }

    /// The new connection comes before the end of the old one is noticed.
    @Test func aConnectionThatOverlapsTheOldOne() throws {
        let world = ChannelWorld(loops: 2)
        let name = world.name("presence-", onShard: 0)
        let (watcher, old, new) = (world.connect(0), world.connect(1), world.connect(0))
        for (wire, user) in [(watcher, "w"), (old, "u"), (new, "u")] { try world.subscribe(name, user: user, wire) }
        world.settle()
        watcher.heard = []
        world.disconnect(old)
        world.settle()
        world.advance(.seconds(3))
        #expect(watcher.heard.isEmpty && world.users(name) == ["w", "u"])
    }

    /// The end of the first grace is due while the second runs.
    @Test func anOldDepartureEndsNothing() throws {
        let world = ChannelWorld(loops: 1)
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        var wire = world.connect(0)
        try world.subscribe("presence-x", user: "u", wire)
        watcher.heard = []
        world.disconnect(wire)
        world.advance(.seconds(2))
        wire = world.connect(0)
        try world.subscribe("presence-x", user: "u", wire)
        world.disconnect(wire)
        world.advance(.seconds(1))
        #expect(watcher.heard.isEmpty && world.users("presence-x") == ["w", "u"])
        world.advance(.seconds(2))
        #expect(watcher.heard == [removed("presence-x", "u")])
    }

    @Test func leavingInTheGraceByAnotherConnectionEndsIt() throws {
        let world = ChannelWorld(loops: 1)
        let watcher = world.connect(0)
        try world.subscribe("presence-x", user: "w", watcher)
        let (old, new) = (world.connect(0), world.connect(0))
        try world.subscribe("presence-x", user: "u", old)
        watcher.heard = []
        world.disconnect(old)
        try world.subscribe("presence-x", user: "u", new)
        try world.unsubscribe("presence-x", new)
        #expect(watcher.heard == [removed("presence-x", "u")])
        world.advance(.seconds(5))
        #expect(watcher.heard.count == 1)
    }

    /// A user who leaves and comes back is reported. One who does so repeatedly is reported twice in three seconds: the
    /// signature stays valid as long as the connection.
    @Test func aMemberThatComesAndGoesIsToldAtIntervals() throws {
        let world = ChannelWorld(loops: 1)
        let (watcher, quick) = (world.connect(0), world.connect(0))
        try world.subscribe("presence-x", user: "w", watcher)
        watcher.heard = []
        world.webhooks = []
        for _ in 0..<50 {
            try world.subscribe("presence-x", user: "u", quick)
            try world.unsubscribe("presence-x", quick)
        }
        #expect(
            watcher.heard == [added("presence-x", "u"), removed("presence-x", "u"), added("presence-x", "u")])
        #expect(world.webhooks == [.memberAdded(try name("presence-x"), userID: "u")])
        #expect(world.users("presence-x") == ["w", "u"])
        world.advance(.seconds(3))
        #expect(watcher.heard.last == removed("presence-x", "u") && watcher.heard.count == 4)
        #expect(
            world.webhooks == [
                .memberAdded(try name("presence-x"), userID: "u"), .memberRemoved(try name("presence-x"), userID: "u"),
            ])
        // After a quiet time, the user is removed at once again.
        try world.subscribe("presence-x", user: "u", quick)
        try world.unsubscribe("presence-x", quick)
        #expect(watcher.heard.count == 6 && world.users("presence-x") == ["w"])
        try world.subscribe("presence-x", user: "u", quick)
        world.advance(.seconds(3))
        try world.unsubscribe("presence-x", quick)
        #expect(watcher.heard.count == 8 && world.users("presence-x") == ["w"])
        for wire in [watcher, quick] { world.disconnect(wire) }
        world.advance(.seconds(3))
        #expect(world.channelCount == 0 && world.nextDue == nil)
        #expect(world.webhooks.count { $0.kind == .presence } == 5)
    }

    /// The list of a large channel is written once and then extended by newcomers.
    @Test func theListOfMembersGoesOn() throws {
        var members = PresenceMembers()
        func frame(_ members: inout PresenceMembers) throws -> String {
            var writer = ByteWriter()
            ServerEvent.subscriptionSucceeded(try name("presence-x"), members: members.list(), to: &writer)
            return writer.string
        }
        for number in 0..<1_000 {
            _ = members.arrive(PresenceMember(id: "u\(number)", info: Array("[\"\"]".utf8)), settledAt: 0)
            #expect(members.isListWritten)
        }
        _ = members.arrive(PresenceMember(id: "u7", info: []), settledAt: 0)
        #expect(!members.isListWritten, "the user has something else to say")
        let list = try frame(&members)
        #expect(list.hasSuffix(#"\"count\":1000}}"}"#) && list.contains(#"\"u7\":{}"#))
        _ = members.arrive(PresenceMember(id: "u7", info: []), settledAt: 0)
        #expect(members.isListWritten, "the same once more")
        #expect(list.contains(#"\"u999\":["#))
        members.remove("u999")
        #expect(!members.isListWritten)
        _ = members.arrive(PresenceMember(id: "v", info: []), settledAt: 0)
        let again = try frame(&members)
        #expect(members.isListWritten && !again.contains("u999") && again.contains(#"\"v\":{}"#))
        #expect(again.contains(#"\"count\":1000}}"#))
        for number in 0..<999 { members.remove("u\(number)") }
        members.remove("v")
        #expect(members.isListWritten && members.count == 0)
    }

    @Test func withoutAGraceTheEndIsToldAtOnce() throws {
        var limits = ShardLimits()
        (limits.leaveGrace, limits.webhookPause) = (.zero, .zero)
        let world = ChannelWorld(loops: 1, limits: limits)
        let wire = world.connect(0)
        try world.subscribe("presence-x", user: "u", wire)
        world.disconnect(wire)
        #expect(world.channelCount == 0)
        #expect(
            world.webhooks.suffix(2) == [
                .memberRemoved(try name("presence-x"), userID: "u"), .channelVacated(try name("presence-x")),
            ])
    }
}
