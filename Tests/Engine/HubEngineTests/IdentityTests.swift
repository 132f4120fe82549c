import Clock
import HubEngine
import Pusher
import Sync
import Testing

/// Identities over time, with the test's own wall clock.
@Suite struct IdentityTests {
    private let clock = TestWallClock()
    private let engine: EngineFixture
    private let session: Session

    init() {
        let clock = clock
        engine = EngineFixture { clock.now }
        session = engine.session(0)
    }

    private func authenticated(_ identity: Identity, _ session: Session? = nil) -> [Heard] {
        var effects = SessionEngine.Effects()
        engine.core.authenticated(session ?? self.session, as: identity, &effects)
        return effects.flatMap(Heard.all)
    }

    /// The effects of a check, and the time to the next one.
    private func look() -> (heard: [Heard], next: Duration?) {
        var effects = SessionEngine.Effects()
        let next = engine.core.identities.due(session, &effects)
        return (effects.flatMap(Heard.all), next)
    }

    private func authOK(_ expiresAt: Int64) -> Heard {
        .text(#"{"event":"sync:auth_ok","data":"{\"userId\":\"u1\",\"expiresAt\":\#(expiresAt)}"}"#)
    }

    private func expiring(_ expiresAt: Int64) -> Heard {
        .text(#"{"event":"sync:auth_expiring","data":"{\"expiresAt\":\#(expiresAt)}"}"#)
    }

    private func isError(_ heard: [Heard], _ part: String) -> Bool {
        guard heard.count == 1, case .text(let text) = heard[0] else { return false }
        return text.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#) && text.contains(part)
    }

    private func rejected() -> [Heard] {
        var effects = SessionEngine.Effects()
        engine.core.identities.rejected(session, reason: "The token is bad", &effects)
        return effects.flatMap(Heard.all)
    }

    // MARK: Tokens refused

    @Test func tenTokensRefusedInARowCloseTheConnection() {
        for _ in 0..<9 { #expect(isError(rejected(), "bad")) }
        _ = authenticated(Identity(userID: "u1", expiresAt: 1_000))
        for _ in 0..<5 { #expect(isError(rejected(), "bad")) }
        for _ in 0..<4 { #expect(isError(authenticated(Identity(userID: "u2")), "another user")) }
        let last = rejected()
        #expect(isError(Array(last.prefix(1)), "bad"))
        #expect(last.dropFirst() == [.close(4109)])
    }

    @Test func revokedTokensCountAsRefused() {
        _ = engine.core.identities.revoked([Revocation(userID: "u1", before: 2_000_000)])
        let old = Identity(userID: "u1", issuedAt: 1)
        for _ in 0..<9 { #expect(isError(authenticated(old), "revoked")) }
        #expect(authenticated(old).last == .close(4109))
    }

    // MARK: Expiry

    @Test func theEndIsAnnouncedAMinuteBeforeAndClosesAfterTheGrace() {
        #expect(
            authenticated(Identity(userID: "u1", expiresAt: 1_000)) == [.watchIdentity(.seconds(940)), authOK(1_000)])
        clock.seconds = 939
        #expect(look() == ([], .seconds(1)))
        clock.seconds = 940
        #expect(look() == ([expiring(1_000)], .seconds(85)))
        clock.seconds = 941
        #expect(look() == ([], .seconds(84)), "told once")
        clock.now = UnixTime(microseconds: 1_024_999_999)
        #expect(look() == ([], .microseconds(1)))
        clock.seconds = 1_025
        #expect(look() == ([.close(4109)], nil))
    }

    @Test func aWallClockSetBackPostpones() {
        _ = authenticated(Identity(userID: "u1", expiresAt: 5_000))
        clock.seconds = 100
        #expect(look() == ([], .seconds(4_840)), "the look came, for the time has passed by the other clock")
    }

    @Test func aTokenShownLateIsAnnouncedAtOnceAndOneTooLateCloses() throws {
        clock.seconds = 980
        #expect(authenticated(Identity(userID: "u1", expiresAt: 1_000)) == [.watchIdentity(.zero), authOK(1_000)])
        clock.seconds = 1_024
        let late = engine.session(1)
        #expect(
            authenticated(Identity(userID: "u1", expiresAt: 1_000), late) == [.watchIdentity(.zero), authOK(1_000)],
            "within the leeway of clocks")
        clock.seconds = 1_025
        let later = engine.session(2)
        _ = try engine.subscribe("user.u1.adherence", from: later)
        #expect(authenticated(Identity(userID: "u1", expiresAt: 1_000), later) == [.close(4109)])
        #expect(later.identity == nil)
    }

    @Test func aSecondTokenRenewsAndIsAnnouncedAnew() {
        _ = authenticated(Identity(userID: "u1", expiresAt: 1_000))
        clock.seconds = 950
        #expect(look().heard == [expiring(1_000)])
        #expect(
            authenticated(Identity(userID: "u1", expiresAt: 2_000)) == [.watchIdentity(.seconds(990)), authOK(2_000)])
        clock.seconds = 1_025
        #expect(look() == ([], .seconds(915)))
        clock.seconds = 1_940
        #expect(look() == ([expiring(2_000)], .seconds(85)))
    }

    @Test func anEarlierEndNeverShortensALaterOne() throws {
        _ = authenticated(Identity(userID: "u1", expiresAt: 2_000))
        clock.seconds = 1_950
        #expect(look().heard == [expiring(2_000)])
        #expect(
            authenticated(Identity(userID: "u1", expiresAt: 1_960)) == [.watchIdentity(.zero), authOK(2_000)])
        #expect(look() == ([], .seconds(75)), "announced already")
        // A backend that sets no expiry.
        #expect(try engine.signin("u1", from: session).count == 1)
        clock.seconds = 9_000
        #expect(look() == ([], nil))
        _ = authenticated(Identity(userID: "u1", expiresAt: 9_010))
        #expect(look() == ([], nil))
    }

    @Test func anotherUsersTokenChangesNothing() {
        _ = authenticated(Identity(userID: "u1", expiresAt: 1_000))
        #expect(isError(authenticated(Identity(userID: "u2", expiresAt: 2_000)), "another user"))
        clock.seconds = 1_025
        #expect(look() == ([.close(4109)], nil))
    }

    @Test func aSigninMayHaveAnEnd() throws {
        let heard = try engine.signin("u1", more: #","issuedAt":900,"expiresAt":1000"#, from: session)
        #expect(heard.first == .watchIdentity(.seconds(940)))
        #expect(heard.count == 2)
        clock.seconds = 990
        #expect(look().heard == [expiring(1_000)])
        #expect(
            authenticated(Identity(userID: "u1", expiresAt: 2_000)).last == authOK(2_000), "a token renews a signin")
        clock.seconds = 2_025
        let late = engine.session(1)
        #expect(try engine.signin("u1", more: #","expiresAt":2000"#, from: late) == [.close(4109)])
    }

    @Test(arguments: [#","expiresAt":1.5"#, #","issuedAt":1.5"#, #","expiresAt":1e300"#])
    func timesOfASigninAreWholeSeconds(_ more: String) throws {
        #expect(isError(try engine.signin("u1", more: more, from: session), "whole seconds"))
        #expect(session.identity == nil)
        let other = engine.session(1, app: engine.otherApp)
        #expect(try engine.signin("u1", more: more, from: other).count == 1, "elsewhere the names mean anything")
    }

    @Test func aSigninOfAnotherAppHasTimesWhereItSaysBoth() throws {
        clock.seconds = 5_000
        let other = engine.session(1, app: engine.otherApp)
        #expect(try engine.signin("u1", more: #","expiresAt":1000"#, from: other).count == 1)
        #expect(other.identity?.expiresAt == nil)
        let ended = engine.session(2, app: engine.otherApp)
        #expect(try engine.signin("u1", more: #","issuedAt":900,"expiresAt":1000"#, from: ended) == [.close(4109)])
        let timed = engine.session(3, app: engine.otherApp)
        let heard = try engine.signin("u1", more: #","issuedAt":4990,"expiresAt":6000"#, from: timed)
        #expect(heard.first == .watchIdentity(.seconds(940)))
        clock.seconds = 6_025
        var effects = SessionEngine.Effects()
        #expect(engine.core.identities.due(timed, &effects) == nil)
        #expect(effects.flatMap(Heard.all) == [.close(4109)])
    }

    // MARK: Revocation

    private func revoke(_ user: String, beforeSeconds: Int64) -> [UInt32] {
        engine.core.identities.revoked([Revocation(userID: user, before: beforeSeconds * 1_000_000)]).map(\.slot)
    }

    @Test func onlySessionsIssuedBeforeAreClosed() throws {
        let sessions = (1...5).map { engine.session($0) }
        let other = engine.session(6, app: engine.otherApp)
        _ = authenticated(Identity(userID: "u1", issuedAt: 500), sessions[0])
        _ = authenticated(Identity(userID: "u1", issuedAt: 700), sessions[1])
        _ = authenticated(Identity(userID: "u1"), sessions[2])
        _ = authenticated(Identity(userID: "u2", issuedAt: 500), sessions[3])
        _ = try engine.signin("u1", from: sessions[4])
        _ = try engine.signin("u1", from: other)
        #expect(revoke("u1", beforeSeconds: 600) == [1, 3, 5])
    }

    /// A channel signature has no time, so its sessions are closed as well.
    @Test func aSessionAdmittedByASignatureIsClosedToo() throws {
        let name = "private-user.u1.adherence"
        let channel = try #require(ChannelName(name))
        let sessions = (1...4).map { engine.session($0) }
        func subscribe(_ session: Session) throws {
            let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
            _ = try engine.subscribe(name, auth: auth, from: session)
        }
        try subscribe(sessions[0])
        _ = authenticated(Identity(userID: "u2", issuedAt: 700), sessions[1])
        try subscribe(sessions[1])
        _ = authenticated(Identity(userID: "u1", issuedAt: 700), sessions[2])
        try subscribe(sessions[2])
        try subscribe(sessions[3])
        _ = try engine.unsubscribe(name, from: sessions[3])
        #expect(revoke("u1", beforeSeconds: 600) == [1, 2])
    }

    // MARK: The hub's own signature of a channel

    private static let name = "private-user.u1.adherence"

    private func grant(
        _ session: Session, issuedAt: Int64 = 500, expiresAt: Int64 = 1_000, _ name: String = name
    ) throws -> String {
        session.app.credentials.sign(
            try #require(ChannelName(name)), grant: GrantTimes(issuedAt: issuedAt, expiresAt: expiresAt),
            socketID: session.socketID)
    }

    private func isRefused(_ heard: [Heard], _ status: Int) -> Bool {
        guard heard.count == 1, case .text(let text) = heard[0] else { return false }
        return text.hasPrefix(#"{"event":"pusher:subscription_error""#) && text.contains(#"\"status\":\#(status)"#)
    }

    @Test func aGrantMakesTheSessionItsUsersForAsLongAsTheToken() throws {
        _ = try engine.subscribe("user.u1.reminders", from: session)
        _ = try engine.subscribe(Self.name, from: session)
        #expect(
            try engine.subscribe(Self.name, auth: grant(session), from: session) == [
                .watchIdentity(.seconds(940)), .join(Self.name, serial: 1), .join("user.u1.reminders", serial: 2),
            ])
        #expect(session.identity?.userID == "u1" && session.identity?.issuedAt == 500)
        clock.seconds = 940
        #expect(look() == ([expiring(1_000)], .seconds(85)))
        // As with any identity: a second credential removes nothing, and a token renews it.
        _ = try engine.unsubscribe(Self.name, from: session)
        #expect(
            try engine.subscribe(Self.name, auth: grant(session, expiresAt: 950), from: session)
                == [.join(Self.name, serial: 3)])
        #expect(session.identity?.expiresAt == 1_000)
        clock.seconds = 1_025
        #expect(look() == ([.close(4109)], nil))
    }

    @Test func aGrantTooLateCloses() throws {
        clock.seconds = 1_025
        #expect(try engine.subscribe(Self.name, auth: grant(session), from: session) == [.close(4109)])
        #expect(session.identity == nil && session.channelCount == 0)
    }

    @Test func aGrantIsRevocable() throws {
        let later = engine.session(1)
        let unused = engine.session(2)
        _ = try engine.subscribe(Self.name, auth: grant(session), from: session)
        _ = try engine.subscribe(Self.name, auth: grant(later, issuedAt: 600), from: later)
        #expect(revoke("u1", beforeSeconds: 600) == [0])
        #expect(isRefused(try engine.subscribe(Self.name, auth: grant(unused), from: unused), 401))
        #expect(isRefused(try engine.subscribe(Self.name, auth: grant(unused, issuedAt: 0), from: unused), 401))
        #expect(unused.identity == nil && unused.channelCount == 0)
        // Its first two parts must not pass for a backend's signature, which never expires.
        let bare = try grant(unused).split(separator: ":").prefix(2).joined(separator: ":")
        let data = #"{"event":"pusher:subscribe","data":{"channel":"\#(Self.name)","auth":"\#(bare)""#
        for more in ["", #","channel_data":":token::500:1000""#, #","channel_data":"500:1000""#] {
            #expect(isRefused(try engine.send(data + more + "}}", from: unused), 401), "\(more)")
        }
        #expect(
            try engine.subscribe(Self.name, auth: grant(unused, issuedAt: 600), from: unused).last
                == .join(Self.name, serial: 1))
    }

    @Test func aGrantIsItsChannelsItsSocketsAndItsAppsAlone() throws {
        let stranger = engine.session(1)
        let other = engine.session(2, app: engine.otherApp)
        #expect(isRefused(try engine.subscribe(Self.name, auth: grant(stranger), from: session), 401))
        let reminders = "private-user.u1.reminders"
        #expect(isRefused(try engine.subscribe(reminders, auth: grant(session), from: session), 401))
        #expect(isRefused(try engine.subscribe("private-x", auth: grant(session, "private-x"), from: session), 401))
        #expect(isRefused(try engine.subscribe(Self.name, auth: grant(other), from: other), 401))
        let data = #"{"channel":"\#(Self.name)","auth":"\#(try grant(session))","channel_data":"{}"}"#
        #expect(isRefused(try engine.send(#"{"event":"pusher:subscribe","data":\#(data)}"#, from: session), 401))
        #expect(session.identity == nil && other.identity == nil)
        // An admission by another user's token could not expire on a connection that has its own identity.
        _ = authenticated(Identity(userID: "u2", expiresAt: 2_000))
        #expect(isRefused(try engine.subscribe(Self.name, auth: grant(session), from: session), 403))
    }

    /// The feed repeats all revocations on every connect; meanwhile a backend may have let the user back in.
    @Test func aKnownRevocationClosesNobodyAgain() throws {
        #expect(revoke("u1", beforeSeconds: 600) == [])
        _ = try engine.signin("u1", from: session)
        #expect(session.identity != nil)
        #expect(revoke("u1", beforeSeconds: 600) == [])
        #expect(revoke("u1", beforeSeconds: 601) == [0])
    }

    /// To a backend whose clock counts milliseconds, all that it signs would be issued after any revocation.
    @Test func whatIsIssuedInTheFutureSaysNoTime() throws {
        clock.seconds = 1_000
        for (number, issuedAt) in ([1_060, 1_061, 1_000_000, .max] as [Int64]).enumerated() {
            let session = engine.session(UInt32(number + 1))
            _ = try engine.signin("u1", more: #","issuedAt":\#(issuedAt)"#, from: session)
            #expect(session.identity?.userID == "u1")
            #expect(session.identity?.issuedAt == (number == 0 ? 1_060 : nil))
        }
        #expect(revoke("u1", beforeSeconds: 1_001) == [2, 3, 4])
    }

    @Test func olderCredentialsAreRefusedAfterwards() throws {
        clock.seconds = 1_000
        _ = revoke("u1", beforeSeconds: 600)
        _ = try engine.subscribe("user.u1.adherence", from: session)
        #expect(isError(authenticated(Identity(userID: "u1", issuedAt: 599, expiresAt: 2_000)), "revoked"))
        #expect(isError(authenticated(Identity(userID: "u1", expiresAt: 2_000)), "revoked"))
        #expect(isError(try engine.signin("u1", more: #","issuedAt":599"#, from: session), "revoked"))
        #expect(isError(try engine.signin("u1", more: #","issuedAt":0"#, from: session), "revoked"))
        #expect(session.identity == nil)
        #expect(
            authenticated(Identity(userID: "u1", issuedAt: 600, expiresAt: 2_000)).last
                == .join("user.u1.adherence", serial: 1))
    }

    @Test func aNewerTokenSavesTheConnectionFromALaterWord() {
        _ = authenticated(Identity(userID: "u1", issuedAt: 500, expiresAt: 2_000))
        _ = authenticated(Identity(userID: "u1", issuedAt: 700, expiresAt: 2_000))
        _ = authenticated(Identity(userID: "u1", issuedAt: 500, expiresAt: 2_000))
        #expect(revoke("u1", beforeSeconds: 600) == [])
        #expect(revoke("u1", beforeSeconds: 701) == [0])
    }

    @Test func aSessionThatHasGoneIsNotClosed() {
        _ = authenticated(Identity(userID: "u1", issuedAt: 500))
        _ = engine.close(session)
        #expect(revoke("u1", beforeSeconds: 600) == [])
    }
}

/// A wall clock set by the test. Used by one test at a time.
final class TestWallClock {
    var now = UnixTime(seconds: 0)

    var seconds: Int64 {
        get { now.microseconds / 1_000_000 }
        set { now = UnixTime(seconds: newValue) }
    }
}
