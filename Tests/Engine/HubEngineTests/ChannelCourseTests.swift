import Bytes
import Clock
import Pusher
import Testing

@testable import HubEngine

/// One shard and a state elsewhere that this test is: which of its replies and changes come, in which order, and what the
/// subscribers here are told then.
@Suite struct ChannelCourseTests {
    private final class Desk {
        let app: App
        let apps = KnownApps()
        var shard: ChannelShard
        var now: Instant = 1_000_000_000
        private(set) var calls: [SentChannelCall] = []
        private(set) var told: [String] = []
        private var lastSerial: UInt32 = 0

        init(_ change: (inout ShardLimits) -> Void = { _ in }) throws {
            var limits = ShardLimits()
            change(&limits)
            app = App(
                id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
                features: AppFeatures(), limits: AppLimits())
            apps.replace(app)
            let sent = Sent()
            let link = LinkedChannels(as: HubID(1)) { if case .channel(let call) = $0 { sent.calls.append(call) } }
            shard = ChannelShard(loops: 1, limits: limits, link: link)
            shard.replace(app)
            self.sent = sent
        }

        private final class Sent { var calls: [SentChannelCall] = [] }
        private let sent: Sent

        private func input(_ input: (inout ChannelShard, inout ChannelShard.Effects) -> Void) throws {
            var effects = ChannelShard.Effects()
            input(&shard, &effects)
            calls += sent.calls
            sent.calls = []
            for effect in effects {
                switch effect {
                case .answer(_, .entered(let entered)):
                    told.append(
                        "in \(entered.serial)\(entered.missed.map { " \(Self.text($0.texts))" }.joined())")
                case .answer(_, .refused(_, let serial, _)): told.append("refused \(serial)")
                case .broadcast(_, _, .passing(let messages), _, _): told.append(Self.text(messages.texts))
                case .broadcast(_, _, .kept(let messages), _, _): told.append(Self.text(messages.texts))
                default: break
                }
            }
        }

        /// An event's name, or what has become of a member.
        private static func text(_ texts: [String]) -> String {
            let text = texts.joined()
            let event =
                text.firstMatch(of: /"event":"(?:pusher_internal:)?([^"]*)"/).map { String($0.output.1) } ?? text
            let user = text.firstMatch(of: /user_id\\":\\"([^\\]*)/).map { " \($0.output.1)" } ?? ""
            return event + user
        }

        func key(_ name: String) throws -> ChannelKey { ChannelKey(0, try #require(ChannelName(name))) }

        /// A session subscribes. Its serial.
        @discardableResult
        func enter(_ name: String, _ user: String? = nil, again: UInt32? = nil) throws -> UInt32 {
            if again == nil { lastSerial += 1 }
            let serial = again ?? lastSerial
            let entry = ChannelEntry(
                app: app, key: try key(name), session: SessionID(slot: serial, generation: serial), serial: serial,
                member: again == nil ? user.map { PresenceMember(id: $0, info: []) } : nil, isRepeated: again != nil)
            try input { [now] in $0.received(.enter(entry), from: 0, now: now, &$1) }
            return serial
        }

        func exit(_ name: String, _ user: String? = nil) throws {
            let exit = ChannelExit(key: try key(name), userID: user, mayReturn: false)
            try input { [now] in $0.received(.exit(exit), from: 0, now: now, &$1) }
        }

        private func news(_ news: ChannelNews) throws {
            let bytes = news.encoded(apps)
            try input { [now] in $0.received(bytes, now: now, &$1) }
        }

        /// The state replies to the last call of that kind, or to the one before.
        func reply(_ name: String, at sequence: UInt64, _ users: [String]? = nil, to number: UInt64? = nil) throws {
            var entered = Entered(sequence: sequence)
            entered.members = users.map { users in
                var list = MemberList()
                for user in users { list.append(user, info: []) }
                return Entered.Members(
                    list: list, version: sequence, each: users.map { PresenceMember(id: $0, info: []) })
            }
            try news(.reply(number ?? calls.last?.number ?? 0, .entered(entered)))
        }

        func fails(_ number: UInt64? = nil) throws {
            try news(.reply(number ?? calls.last?.number ?? 0, .unavailable(.unknown)))
        }

        func change(_ name: String, _ follows: UInt64, _ sequence: UInt64, _ what: ChannelChange.What) throws {
            try news(.change(ChannelChange(key: try key(name), follows: follows, sequence: sequence, what: what)))
        }

        /// The state says that the hub is counted in it.
        func isCounted(_ name: String) throws { try news(.latest(key(name), 0)) }

        func event(_ name: String, _ follows: UInt64, _ sequence: UInt64, _ event: String) throws {
            let publication = Publication(channel: try key(name).name, event: event, data: [])
            try change(name, follows, sequence, .published(publication, nil))
        }

        func advance(_ seconds: Int) throws {
            now = now.advanced(by: .seconds(seconds))
            while let due = shard.nextDue, due <= now { try input { [now] in $0.tick(now: now, &$1) } }
        }

        /// What has been told since the last look.
        func heard() -> [String] {
            defer { told = [] }
            return told
        }

        /// The last assertion: who is said to be here.
        var asserted: Attending? {
            calls.reversed().lazy.compactMap { if case .assert(_, let attending) = $0.call { attending } else { nil } }
                .first
        }

        func count(_ isKind: (ChannelCall) -> Bool) -> Int { calls.count { isKind($0.call) } }
    }

    private static func isAssertion(_ call: ChannelCall) -> Bool { if case .assert = call { true } else { false } }

    /// A change is lost, and events after it have come: they are told once it is known what is true, and nothing twice.
    @Test func whatHasComeIsToldThoughAChangeIsLost() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 8, ["a"])
        try desk.event("presence-x", 9, 10, "one")
        try desk.event("presence-x", 10, 11, "two")
        #expect(desk.heard() == ["in 1"])
        try desk.advance(1)
        try desk.reply("presence-x", at: 11, ["a", "b"])
        try desk.advance(1)
        #expect(desk.heard() == ["one", "two", "member_added b"])
        try desk.event("presence-x", 11, 12, "three")
        #expect(desk.heard() == ["three"])
    }

    /// The state has lost its last change, and made another one under its number. What is true is told all the same.
    @Test func aHistoryThatTookAnotherTurnIsTold() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 9, ["a"])
        try desk.change("presence-x", 9, 10, .memberAdded(PresenceMember(id: "v", info: [])))
        #expect(desk.heard() == ["in 1", "member_added v"])
        try desk.change("presence-x", 9, 10, .memberAdded(PresenceMember(id: "w", info: [])))
        try desk.reply("presence-x", at: 10, ["a", "w"])
        try desk.advance(1)
        #expect(desk.heard() == ["member_removed v", "member_added w"])
        // It tells again who is here: clients know that.
        try desk.change("presence-x", 10, 11, .memberAdded(PresenceMember(id: "a", info: [])))
        try desk.event("presence-x", 11, 12, "e")
        #expect(desk.heard() == ["e"])
    }

    /// The state begins anew, and counts from the beginning: what comes before it is known is told then, and once.
    @Test func eventsOfAStateThatBeginsAnewAreTold() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 90, ["a"])
        try desk.event("presence-x", 0, 1, "one")
        try desk.event("presence-x", 1, 2, "two")
        try desk.event("presence-x", 2, 3, "three")
        #expect(desk.heard() == ["in 1"])
        try desk.reply("presence-x", at: 2, ["a", "b"])
        #expect(desk.heard() == ["one", "two", "member_added b", "three"])
        try desk.event("presence-x", 3, 4, "four")
        #expect(desk.heard() == ["four"])
    }

    /// What has come of a history that was lost is not told, also not when the new one has as many changes.
    @Test func whatIsOfALostHistoryIsNeverTold() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 8, ["a"])
        // It waits for 9, and is lost with that: another server takes over.
        try desk.change("presence-x", 9, 10, .memberAdded(PresenceMember(id: "ghost", info: [])))
        desk.shard.assertAll(now: desk.now)
        try desk.advance(0)
        try desk.reply("presence-x", at: 8, ["a"])
        try desk.change("presence-x", 8, 9, .memberAdded(PresenceMember(id: "b", info: [])))
        try desk.advance(10)
        #expect(desk.heard() == ["in 1", "member_added b"])
        try desk.change("presence-x", 9, 10, .memberRemoved("b"))
        #expect(desk.heard() == ["member_removed b"])
    }

    /// The new history counts from below where this hub came to the channel: its replies count all the same.
    @Test func repliesOfANewHistoryCountHoweverLowItIs() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 40, ["a", "b"])
        desk.shard.assertAll(now: desk.now)
        try desk.advance(0)
        try desk.reply("presence-x", at: 8, ["a", "b"])
        // A change is lost.
        desk.shard.assertAll(now: desk.now)
        try desk.advance(0)
        try desk.reply("presence-x", at: 9, ["a"])
        try desk.advance(1)
        #expect(desk.heard() == ["in 1", "member_removed b"])
    }

    /// The state has lost that somebody came, who waits for the list: it is told again, and the list has the newcomer.
    @Test func aNewcomerWhomTheStateHasLostIsInItsList() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 40, ["a"])
        try desk.enter("presence-x", "b")
        // Its change is lost with the server.
        try desk.reply("presence-x", at: 42, ["a", "b"])
        desk.shard.assertAll(now: desk.now)
        try desk.advance(0)
        try desk.reply("presence-x", at: 8, ["a"])
        #expect(desk.heard() == ["in 1"])
        try desk.advance(1)
        #expect(desk.asserted?.members.count == 2)
        try desk.reply("presence-x", at: 9, ["a", "b"])
        try desk.advance(1)
        #expect(desk.heard() == ["member_added b", "in 2"])
    }

    /// The new history goes on while the reply that tells of it is read: what has come of it is kept.
    @Test func aNewHistoryGoesOnWhileItIsRead() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 8, ["a"])
        try desk.change("presence-x", 8, 10, .memberAdded(PresenceMember(id: "b", info: [])))
        desk.shard.assertAll(now: desk.now)
        try desk.advance(0)
        // Decided at 7, and overtaken by one change that seems to follow, and by one that does not.
        try desk.change("presence-x", 7, 9, .memberAdded(PresenceMember(id: "c", info: [])))
        try desk.change("presence-x", 9, 11, .memberRemoved("b"))
        try desk.reply("presence-x", at: 7, ["a", "b"])
        #expect(desk.heard() == ["in 1", "member_added b", "member_removed b", "member_added c"])
        try desk.change("presence-x", 11, 12, .memberRemoved("c"))
        #expect(desk.heard() == ["member_removed c"])
    }

    /// An assertion's reply is older than what was told meanwhile: it counts with that.
    @Test func anAnswerThatIsOvertakenCountsWithWhatOvertookIt() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 9, ["a"])
        try desk.event("presence-x", 8, 9, "old")
        let assertion = desk.calls.last?.number
        try desk.change("presence-x", 9, 10, .memberAdded(PresenceMember(id: "b", info: [])))
        try desk.reply("presence-x", at: 9, ["a", "z"], to: assertion)
        #expect(desk.heard() == ["in 1", "member_added b", "member_added z"])
    }

    /// The reply to an assertion that is long over changes nothing.
    @Test func onlyTheLastAssertionCounts() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.exit("presence-x", "a")
        // Neither a reply to the enter nor to what follows: after five seconds all is asserted.
        try desk.advance(6)
        let old = desk.calls.last?.number
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 20, ["a"])
        try desk.reply("presence-x", at: 3, [], to: old)
        try desk.advance(2)
        #expect(desk.heard().filter { $0.hasPrefix("member") } == [])
    }

    /// A newcomer waits for a change that never comes, and the state is away. The state is told who is here, without it, and
    /// is asked for it again.
    @Test func aReadyOneIsAskedForAgainWhereNobodyKnows() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 9, ["a"])
        try desk.enter("presence-x", "b")
        try desk.reply("presence-x", at: 12, ["a", "b"])
        #expect(desk.heard() == ["in 1"])
        try desk.advance(1)
        try desk.fails()
        try desk.advance(1)
        #expect(desk.heard() == [])
        #expect(desk.asserted?.connections == 1 && desk.asserted?.members.map(\.member.id) == ["a"])
        guard case .enter? = desk.calls.last?.call else {
            Issue.record("it is not asked for again")
            return
        }
        try desk.reply("presence-x", at: 14, ["a", "b"])
        try desk.reply("presence-x", at: 13, ["a"], to: desk.calls.dropLast().last?.number)
        try desk.change("presence-x", 13, 14, .memberAdded(PresenceMember(id: "b", info: [])))
        try desk.advance(1)
        #expect(desk.heard() == ["member_added b", "in 2"])
    }

    /// The newcomer's reply is of a history that the state has lost, which had told nobody else of it: what the others know
    /// is still true, and so the state is not set back for them.
    @Test(arguments: ["news", "presence-x"]) func aReadyOneIsLetInWhereItsReplyWasLost(_ name: String) throws {
        let desk = try Desk()
        let (one, both) = name == "news" ? (nil, nil) : (["a"], ["a", "b"])
        try desk.enter(name, one?.first)
        try desk.reply(name, at: 9, one)
        try desk.enter(name, both?.last)
        try desk.reply(name, at: 12, both)
        try desk.advance(1)
        // It has been told of both by the assertion, and has no change for it yet.
        try desk.reply(name, at: 10, both)
        try desk.advance(1)
        #expect(desk.heard().filter { $0.hasPrefix("in") } == ["in 1", "in 2"])
        try desk.event(name, 10, 11, "e")
        #expect(desk.heard() == ["e"])
    }

    /// A newcomer that waits for a change that the state has lost is let in with what is true by now.
    @Test func aReadyOneIsLetInWhereTheStateIsSetBack() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 9, ["a"])
        try desk.enter("presence-x", "b")
        try desk.reply("presence-x", at: 12, ["a", "b", "c"])
        try desk.advance(1)
        try desk.reply("presence-x", at: 6, ["a", "b"])
        try desk.advance(1)
        #expect(desk.heard() == ["in 1", "member_added b", "in 2"])
        try desk.event("presence-x", 6, 7, "e")
        #expect(desk.heard() == ["e"])
    }

    /// A reply that is older than a gap does not know what was lost in it.
    @Test func aReplyFromBeforeAGapWaits() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 7, ["a"])
        let waiting = try desk.enter("presence-x", "b")
        let call = desk.calls.last?.number
        try desk.event("presence-x", 7, 8, "one")
        try desk.event("presence-x", 9, 10, "two")
        try desk.advance(1)
        try desk.reply("presence-x", at: 10, ["a", "b", "c"])
        try desk.advance(1)
        _ = desk.heard()
        try desk.reply("presence-x", at: 7, ["a", "b"], to: call)
        #expect(desk.heard() == [])
        try desk.reply("presence-x", at: 10, ["a", "b", "c"])
        #expect(desk.heard() == ["in \(waiting)"])
    }

    /// Users whose ids differ in bytes alone are two.
    @Test func usersAreComparedByBytes() throws {
        let desk = try Desk()
        for user in ["\u{E9}", "e\u{301}"] {
            try desk.enter("presence-x", user)
            try desk.reply("presence-x", at: 9, ["\u{E9}", "e\u{301}"])
        }
        try desk.event("presence-x", 8, 9, "old")
        #expect(desk.asserted?.members.map(\.connections) == [1, 1])
    }

    /// What a repeated subscribe is told of a cache channel may be older than what all were told: that comes again, last.
    @Test func theNewestEventOfACacheIsTheLast() throws {
        let desk = try Desk()
        let serial = try desk.enter("cache-x")
        try desk.reply("cache-x", at: 8)
        try desk.enter("cache-x", again: serial)
        let call = desk.calls.last?.number
        try desk.event("cache-x", 8, 9, "new")
        try desk.reply("cache-x", at: 8, to: call)
        #expect(desk.heard() == ["in 1", "new", "in 1 new"])
    }

    /// While the state is away, calls do not pile up: one assertion for each channel, and channels within the bound.
    @Test func anOutageIsBounded() throws {
        let desk = try Desk { $0.channelsMax = 5 }
        for _ in 0..<100 {
            try desk.enter("news")
            try desk.reply("news", at: 1)
        }
        for _ in 0..<100 { try desk.exit("news") }
        for number in 0..<10 { try desk.enter("public-\(number)") }
        #expect(desk.heard().filter { $0.hasPrefix("refused") }.count == 5)
        let before = desk.count(Self.isAssertion)
        for _ in 0..<30 { try desk.advance(1) }
        // One at a time, every six seconds or so: for the channel that was left, and five that nobody knows of.
        #expect(desk.count(Self.isAssertion) - before <= 6 * 6)
        #expect(desk.shard.localCount <= 5)
    }

    /// The way was broken: all that is here is asserted, whatever came.
    @Test func aGapAssertsAll() throws {
        let desk = try Desk { $0.dueAtOnceMax = 2 }
        for number in 0..<5 {
            try desk.enter("presence-\(number)", "a")
            try desk.reply("presence-\(number)", at: 1, ["a"])
        }
        desk.shard.assertAll(now: desk.now)
        try desk.advance(0)
        #expect(desk.count(Self.isAssertion) == 5)
    }

    /// The state counts a session that has left: the shard says that nobody is here. A session that comes meanwhile stays.
    @Test func aChannelThatNobodyHereIsInIsLeftAgain() throws {
        let desk = try Desk()
        try desk.isCounted("presence-x")
        #expect(desk.count(Self.isAssertion) == 1)
        #expect(desk.asserted?.connections == 0 && desk.asserted?.members.isEmpty == true)
        try desk.isCounted("presence-x")
        #expect(desk.count(Self.isAssertion) == 1, "it is being told")
        try desk.reply("presence-x", at: 3, [])
        // The state had answered before it heard of the newcomer.
        try desk.enter("presence-x", "a")
        try desk.isCounted("presence-x")
        #expect(desk.count(Self.isAssertion) == 1)
        try desk.reply("presence-x", at: 4, ["a"])
        try desk.isCounted("presence-x")
        #expect(desk.asserted?.connections == 1)
        #expect(desk.heard() == ["in 1"])
    }

    /// A reply of a new history may lie below what clients here know of the old one, which knows nothing of the newcomer:
    /// it gets a list that it is in.
    @Test func aNewcomerOfASetBackStateIsInItsList() throws {
        let desk = try Desk()
        try desk.enter("presence-x", "a")
        try desk.reply("presence-x", at: 90, ["a"])
        try desk.enter("presence-x", "b")
        let call = desk.calls.last?.number
        for sequence in 91...93 as ClosedRange<UInt64> { try desk.event("presence-x", sequence - 1, sequence, "e") }
        #expect(desk.heard() == ["in 1", "e", "e", "e"])
        // What the old history had as 92 and 93, this reply does not know.
        try desk.reply("presence-x", at: 91, to: call)
        #expect(desk.heard() == [])
        try desk.advance(1)
        try desk.reply("presence-x", at: 91, ["a", "b"])
        try desk.advance(1)
        #expect(desk.heard() == ["member_added b", "in 2"])
    }
}
