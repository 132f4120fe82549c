import HubEngine
import Pusher
import Sync
import Testing

/// Positions sent before the sign-in, for another user's channels: each is answered, so that a client which follows
/// Sources/Values/Sync/README.md stops.
@Suite struct ForbiddenPlaceTests {
    private let engine = EngineFixture()
    private let own = "user.u1.x"
    private let others = "user.u2.x"
    private let privately = "private-user.u2.x"

    private func authenticated(_ user: String, _ session: Session) -> [Heard] {
        var effects = SessionEngine.Effects()
        engine.core.authenticated(session, as: Identity(userID: user), &effects)
        return effects.flatMap(Heard.all)
    }

    private func forbidden(_ channel: String, _ offset: Int64) -> Heard {
        resumed(channel, at: offset, lost: .forbidden)
    }

    @Test func aSignInAnswersThem() throws {
        let session = engine.session(0)
        #expect(try engine.resume([own: ("e", 1), others: ("e", 2)], from: session).isEmpty)
        let heard = try engine.signin("u1", from: session)
        #expect(heard.dropFirst() == [forbidden(others, 2)])
        #expect(try engine.signin("u1", from: session).count == 1, "told once")
        // Its own position waits for the subscribe.
        #expect(try engine.subscribe(own, from: session) == [.join(own, serial: 1)])
        let join = StreamJoin(
            name: try #require(try StreamName.parse(own)), session: session.id, serial: 1)
        let position = StreamPosition(epoch: "e", offset: 1)
        #expect(
            engine.joined(join, at: 4, session)
                == [succeeded(own, at: 4), .join(own, serial: 2, .resume(from: position))])
    }

    @Test func aTokenAnswersThem() throws {
        let session = engine.session(0)
        _ = try engine.resume([own: ("e", 1), others: ("e", 2)], from: session)
        #expect(authenticated("u1", session).dropFirst() == [forbidden(others, 2)])
    }

    @Test(arguments: [true, false]) func aPlaceOfAParkedSubscribeIsAnsweredBehindItsRefusal(
        subscribesFirst: Bool
    ) throws {
        for channel in [others, privately] {
            let session = engine.session(0)
            if subscribesFirst { #expect(try engine.subscribe(channel, from: session).isEmpty) }
            #expect(try engine.resume([channel: ("e", 2)], from: session).isEmpty)
            if !subscribesFirst { #expect(try engine.subscribe(channel, from: session).isEmpty) }
            let heard = try engine.signin("u1", from: session)
            #expect(heard.count == 3)
            #expect(heard[1].description.contains("subscription_error"))
            #expect(heard[2] == forbidden(channel, 2))
            _ = engine.close(session)
        }
    }

    /// The hub's own signature of a private channel identifies the session's user.
    @Test func aGrantAnswersThem() throws {
        let session = engine.session(0)
        let name = "private-user.u1.x"
        let channel = try #require(ChannelName(name))
        let grant = engine.app.credentials.sign(
            channel, grant: GrantTimes(issuedAt: 1, expiresAt: 4_000_000_000), socketID: session.socketID)
        _ = try engine.resume([others: ("e", 2), own: ("e", 1)], from: session)
        let heard = try engine.subscribe(name, auth: grant, from: session)
        #expect(heard.contains(forbidden(others, 2)))
        #expect(!heard.contains(forbidden(own, 1)))
    }

    /// The app's backend admits to one channel, but does not say who the user is.
    @Test func aBackendsSignatureLeavesThemWaiting() throws {
        let session = engine.session(0)
        let channel = try #require(ChannelName(privately))
        let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
        _ = try engine.resume([others: ("e", 2)], from: session)
        #expect(try engine.subscribe(privately, auth: auth, from: session) == [.join(privately, serial: 1)])
        #expect(try engine.signin("u1", from: session).dropFirst() == [forbidden(others, 2)])
    }

    /// A position in another user's private channel waits for a backend's signature; an invalid signature ends the wait.
    @Test func aPrivatePlaceWaitsForItsSubscribe() throws {
        let session = engine.session(0)
        _ = try engine.resume([privately: ("e", 2)], from: session)
        #expect(try engine.signin("u1", from: session).count == 1)
        for auth in ["key:" + String(repeating: "0", count: 64), ""] {
            let heard = try engine.subscribe(privately, auth: auth, from: session)
            #expect(heard.count == 2 && heard[0].description.contains("subscription_error"))
            #expect(heard[1] == forbidden(privately, 2))
            #expect(try engine.resume([privately: ("e", 2)], from: session).isEmpty)
        }
        let channel = try #require(ChannelName(privately))
        let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
        #expect(try engine.subscribe(privately, auth: auth, from: session) == [.join(privately, serial: 1)])
    }

    @Test func whileNobodySignsInTheyWait() throws {
        let session = engine.session(0)
        _ = try engine.resume([others: ("e", 2)], from: session)
        let auth = "key:" + String(repeating: "0", count: 64)
        let wrong = #"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"{\"id\":\"u1\"}"}}"#
        #expect(try engine.send(wrong, from: session).count == 1, "the complaint alone")
        var effects = SessionEngine.Effects()
        engine.core.identities.rejected(session, reason: "bad", &effects)
        #expect(effects.count == 1)
        #expect(authenticated("u2", session).count == 1, "its user after all: nothing is forbidden")
        #expect(try engine.subscribe(others, from: session) == [.join(others, serial: 1)])
    }

    /// At the bound of positions before the sign-in, and one past it.
    @Test func theirNumberIsBounded() throws {
        let session = engine.session(0)
        let names = (0..<20).map { "user.u2.\(String(UnicodeScalar(UInt8(97 + $0))))" }
        for name in names { #expect(try engine.resume([name: ("e", 1)], from: session).isEmpty) }
        #expect(
            try engine.resume(["user.u2.zz": ("e", 1)], from: session).first?.description.contains("too many") == true)
        let heard = try engine.signin("u1", from: session)
        #expect(heard.dropFirst() == ArraySlice(names.map { forbidden($0, 1) }))
    }
}
