import HubEngine
import Pusher
import Sync
import Testing

@Suite struct SessionEngineTests {
    let engine = EngineFixture()

    private func isRefused(_ heard: [Heard], _ channel: String, status: Int) -> Bool {
        guard heard.count == 1, case .text(let text) = heard[0] else { return false }
        return text.hasPrefix(#"{"event":"pusher:subscription_error","channel":"\#(channel)""#)
            && text.contains(#"\"status\":\#(status)"#)
    }

    private func isError(_ heard: [Heard]) -> Bool {
        guard heard.count == 1, case .text(let text) = heard[0] else { return false }
        return text.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#)
    }

    @Test func answersPingAndIgnoresPong() throws {
        let session = engine.session(0)
        #expect(
            try engine.send(#"{"event":"pusher:ping","data":""}"#, from: session)
                == [.pong])
        #expect(try engine.send(#"{"event":"pusher:pong","data":{}}"#, from: session).isEmpty)
    }

    @Test func publicChannelsAreForEverybody() throws {
        let one = engine.session(0)
        let two = engine.session(1)
        #expect(try engine.subscribe("news", from: one) == [succeeded("news")])
        #expect(try engine.subscribe("news", from: two) == [succeeded("news")])
        #expect(engine.subscribers("news") == [0, 1])
        #expect(
            try engine.subscribe("news", from: one) == [succeeded("news")], "a repeated subscribe is answered again")
        #expect(engine.subscribers("news") == [0, 1])
        #expect(try engine.unsubscribe("news", from: one).isEmpty)
        #expect(engine.subscribers("news") == [1])
        #expect(try engine.unsubscribe("news", from: one).isEmpty)
        #expect(engine.close(two).isEmpty)
        #expect(engine.core.channels.count(of: engine.app) == 0)
    }

    @Test func channelsOfAppsAreApart() throws {
        let one = engine.session(0)
        let two = engine.session(1, app: engine.otherApp)
        _ = try engine.subscribe("news", from: one)
        _ = try engine.subscribe("news", from: two)
        #expect(engine.subscribers("news") == [0])
        #expect(engine.subscribers("news", app: engine.otherApp) == [1])
    }

    @Test(arguments: ["private-x", "private-encrypted-x"])
    func privateChannelsNeedASignature(_ name: String) throws {
        let session = engine.session(0)
        let channel = try #require(ChannelName(name))
        #expect(isRefused(try engine.subscribe(name, from: session), name, status: 401))
        let other = SocketID(random: 9 << 32 | 9)
        let stale = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: other)
        #expect(isRefused(try engine.subscribe(name, auth: stale, from: session), name, status: 401))
        #expect(engine.subscribers(name).isEmpty)
        let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
        #expect(try engine.subscribe(name, auth: auth, from: session) == [succeeded(name)], "the right one follows")
        #expect(engine.subscribers(name) == [0])
    }

    @Test func channelDataIsCoveredByTheSignature() throws {
        let session = engine.session(0)
        let channel = try #require(ChannelName("private-x"))
        let without = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
        let with = engine.app.credentials.sign(.channel(channel, channelData: "{}"), socketID: session.socketID)
        func subscribe(_ auth: String) throws -> [Heard] {
            try engine.send(
                #"{"event":"pusher:subscribe","data":{"channel":"private-x","auth":"\#(auth)","channel_data":"{}"}}"#,
                from: session)
        }
        #expect(isRefused(try subscribe(without), "private-x", status: 401))
        #expect(try subscribe(with) == [succeeded("private-x")])
    }

    // MARK: User channels

    @Test func aGuardedSubscribeWaitsForTheIdentity() throws {
        let session = engine.session(0)
        #expect(try engine.subscribe("user.u1.adherence", from: session).isEmpty)
        #expect(try engine.subscribe("user.u1.adherence", from: session).isEmpty, "parked once")
        #expect(try engine.subscribe("user.u2.adherence", from: session).isEmpty)
        let heard = try engine.signin("u1", from: session)
        try #require(heard.count == 3)
        #expect("\(heard[0])".contains("pusher:signin_success"))
        #expect(heard[1] == .join("user.u1.adherence", serial: 1))
        #expect(isRefused([heard[2]], "user.u2.adherence", status: 403))
        #expect(engine.subscribers("user.u1.adherence").isEmpty, "not before the shard has answered")
    }

    @Test func theShardsAnswerMakesASubscriber() throws {
        let session = engine.session(3)
        _ = try engine.signin("u1", from: session)
        #expect(try engine.subscribe("user.u1.adherence", from: session) == [.join("user.u1.adherence", serial: 1)])
        let join = try joinOf("user.u1.adherence", session, serial: 1)
        #expect(engine.joined(join, at: 7, session) == [succeeded("user.u1.adherence", at: 7)])
        #expect(engine.subscribers("user.u1.adherence") == [3])
        #expect(engine.close(session) == [.leave("user.u1.adherence")])
    }

    private func joinOf(_ name: String, _ session: Session, serial: UInt32) throws -> StreamJoin {
        StreamJoin(name: try #require(try StreamName.parse(name)), session: session.id, serial: serial)
    }

    @Test func aSubscribeTakenBackIsNotAnsweredLate() throws {
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        _ = try engine.subscribe("user.u1.adherence", from: session)
        #expect(try engine.unsubscribe("user.u1.adherence", from: session) == [.leave("user.u1.adherence")])
        #expect(try engine.subscribe("user.u1.adherence", from: session) == [.join("user.u1.adherence", serial: 2)])
        #expect(engine.joined(try joinOf("user.u1.adherence", session, serial: 1), at: 5, session).isEmpty)
        #expect(engine.subscribers("user.u1.adherence").isEmpty)
        #expect(
            engine.joined(try joinOf("user.u1.adherence", session, serial: 2), at: 6, session)
                == [succeeded("user.u1.adherence", at: 6)])
        #expect(engine.subscribers("user.u1.adherence") == [0])
    }

    @Test func noLeaveWhileJoining() throws {
        let one = engine.session(0)
        let two = engine.session(1)
        for session in [one, two] { _ = try engine.signin("u1", from: session) }
        _ = try engine.subscribe("user.u1.adherence", from: one)
        _ = engine.joined(try joinOf("user.u1.adherence", one, serial: 1), at: 1, one)
        _ = try engine.subscribe("user.u1.adherence", from: two)
        #expect(engine.close(one).isEmpty, "the second one's answer is under way")
        _ = engine.joined(try joinOf("user.u1.adherence", two, serial: 1), at: 1, two)
        #expect(engine.subscribers("user.u1.adherence") == [1])
        #expect(try engine.unsubscribe("user.u1.adherence", from: two) == [.leave("user.u1.adherence")])
    }

    /// It was sent all events up to this position; the next event follows.
    @Test func aRepeatedStreamSubscribeIsToldWhereItStands() throws {
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        _ = try engine.subscribe("user.u1.adherence", from: session)
        #expect(try engine.subscribe("user.u1.adherence", from: session).isEmpty, "its answer is under way")
        _ = engine.joined(try joinOf("user.u1.adherence", session, serial: 1), at: 1, session)
        engine.core.channels.named("user.u1.adherence", of: engine.app)?.advanced(to: 4)
        #expect(
            try engine.subscribe("user.u1.adherence", from: session) == [succeeded("user.u1.adherence", at: 4)])
        #expect(engine.subscribers("user.u1.adherence") == [0])
        #expect(engine.close(session) == [.leave("user.u1.adherence")])
    }

    @Test func privateUserChannelsTakeASignatureOrTheIdentity() throws {
        let name = "private-user.u1.adherence"
        let channel = try #require(ChannelName(name))
        let signed = engine.session(0)
        let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: signed.socketID)
        #expect(try engine.subscribe(name, auth: auth, from: signed) == [.join(name, serial: 1)])
        let wrong = engine.session(1)
        #expect(
            isRefused(
                try engine.subscribe(name, auth: "key:" + String(repeating: "0", count: 64), from: wrong), name,
                status: 401))
        let known = engine.session(2)
        _ = try engine.signin("u1", from: known)
        #expect(try engine.subscribe(name, from: known) == [.join(name, serial: 1)])
        let other = engine.session(3)
        _ = try engine.signin("u2", from: other)
        #expect(isRefused(try engine.subscribe(name, from: other), name, status: 403))
    }

    /// A double entry would remain in the channel for the next session in the slot.
    @Test func aParkedSubscribeThatIsVouchedForEntersOnce() throws {
        let name = "private-user.u1.adherence"
        let session = engine.session(0)
        let channel = try #require(ChannelName(name))
        let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
        #expect(try engine.subscribe(name, from: session).isEmpty, "parked")
        #expect(try engine.subscribe(name, auth: auth, from: session) == [.join(name, serial: 1)])
        _ = engine.joined(try joinOf(name, session, serial: 1), at: 1, session)
        #expect(try engine.signin("u1", from: session).count == 1, "nothing is left to be unparked")
        #expect(engine.subscribers(name) == [0])
        #expect(try engine.unsubscribe(name, from: session) == [.leave(name)])
        #expect(engine.subscribers(name).isEmpty)
    }

    @Test func aRepeatedParkedSubscribeIsNotOneTooMany() throws {
        var limits = ChannelLimits()
        limits.subscriptionsPerSessionMax = 1
        let engine = EngineFixture(limits: limits)
        let session = engine.session(0)
        #expect(try engine.subscribe("user.a.x", from: session).isEmpty)
        #expect(try engine.subscribe("user.a.x", from: session).isEmpty)
        #expect(isRefused(try engine.subscribe("b", from: session), "b", status: 403))
    }

    @Test(arguments: ["user.a=2eb.adherence", "user.=41.adherence", "user..adherence", "user.a=.adherence"])
    func namesThatAreNotCanonicalAreRefused(_ name: String) throws {
        let session = engine.session(0)
        _ = try engine.signin("a", from: session)
        #expect(isRefused(try engine.subscribe(name, from: session), name, status: 400))
    }

    @Test func idsMayHoldDotsAndOddBytes() throws {
        let session = engine.session(0)
        _ = try engine.signin("a.adherence.é", from: session)
        let name = "user.a.adherence.=C3=A9.adherence"
        #expect(try engine.subscribe(name, from: session) == [.join(name, serial: 1)])
        #expect(
            isRefused(
                try engine.subscribe("user.a.adherence", from: session), "user.a.adherence", status: 403))
        let decomposed = "user.a.adherence.e=CC=81.adherence"
        #expect(isRefused(try engine.subscribe(decomposed, from: session), decomposed, status: 403))
    }

    @Test func anotherAppsSignatureMakesNoUserOfTheDatabase() throws {
        let session = engine.session(0, app: engine.otherApp)
        _ = try engine.signin("u1", from: session)
        #expect(try engine.subscribe("user.u1.adherence", from: session) == [succeeded("user.u1.adherence")])
        #expect(engine.subscribers("user.u1.adherence").isEmpty, "an ordinary channel of its own app")
        #expect(isError(try engine.send(#"{"event":"sync:auth","data":{"token":"t"}}"#, from: session)))
    }

    // MARK: Identity

    @Test func anIdentityNeverChanges() throws {
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        #expect(isError(try engine.signin("u2", from: session)))
        #expect(session.identity?.userID == "u1")
        #expect(try engine.signin("u1", from: session).count == 1, "the same again is fine")
    }

    @Test func aWrongSigninIsToldAndChangesNothing() throws {
        let session = engine.session(0)
        let text = #"{"event":"pusher:signin","data":{"auth":"key:00","user_data":"{\"id\":\"u1\"}"}}"#
        #expect(isError(try engine.send(text, from: session)))
        #expect(session.identity == nil)
    }

    @Test func tokensAreVerifiedElsewhere() throws {
        let session = engine.session(0)
        _ = try engine.subscribe("user.u1.adherence", from: session)
        #expect(try engine.send(#"{"event":"sync:auth","data":{"token":"t"}}"#, from: session) == [.verify("t")])
        #expect(isError(try engine.send(#"{"event":"sync:auth","data":{}}"#, from: session)))
        var effects = SessionEngine.Effects()
        engine.core.authenticated(session, as: Identity(userID: "u1", expiresAt: 9), &effects)
        #expect(
            effects.flatMap(Heard.all).dropFirst() == [
                .text(#"{"event":"sync:auth_ok","data":"{\"userId\":\"u1\",\"expiresAt\":9}"}"#),
                .join("user.u1.adherence", serial: 1),
            ])
    }

    @Test func theOwnServerToUserChannelNeedsNoSignature() throws {
        let session = engine.session(0)
        #expect(isRefused(try engine.subscribe("#server-to-user-u1", from: session), "#server-to-user-u1", status: 401))
        _ = try engine.signin("u1", from: session)
        #expect(try engine.subscribe("#server-to-user-u1", from: session) == [succeeded("#server-to-user-u1")])
        #expect(isRefused(try engine.subscribe("#server-to-user-u2", from: session), "#server-to-user-u2", status: 403))
    }

    @Test(arguments: [
        #"{"event":"sync:nonsense","data":{}}"#, #"{"event":"client-x","channel":"private-x","data":{}}"#,
        #"{"event":"hello","data":{}}"#,
    ])
    func unknownEventsAreToldAndTheConnectionStays(_ text: String) throws {
        #expect(isError(try engine.send(text, from: engine.session(0))))
    }

    // MARK: Limits

    @Test func subscriptionsAreBounded() throws {
        var limits = ChannelLimits()
        limits.subscriptionsPerSessionMax = 3
        let engine = EngineFixture(limits: limits)
        let session = engine.session(0)
        for name in ["a", "b", "c"] { #expect(try engine.subscribe(name, from: session) == [succeeded(name)]) }
        #expect(isRefused(try engine.subscribe("d", from: session), "d", status: 403))
        #expect(try engine.subscribe("a", from: session) == [succeeded("a")], "not a further one")
        _ = try engine.unsubscribe("b", from: session)
        #expect(try engine.subscribe("d", from: session) == [succeeded("d")])
    }

    @Test func parkedSubscribesAreBounded() throws {
        var limits = ChannelLimits()
        limits.parkedPerSessionMax = 2
        let engine = EngineFixture(limits: limits)
        let session = engine.session(0)
        #expect(try engine.subscribe("user.a.x", from: session).isEmpty)
        #expect(try engine.subscribe("user.b.x", from: session).isEmpty)
        #expect(isRefused(try engine.subscribe("user.c.x", from: session), "user.c.x", status: 403))
        #expect(try engine.unsubscribe("user.a.x", from: session).isEmpty)
        #expect(try engine.subscribe("user.c.x", from: session).isEmpty)
    }
}
