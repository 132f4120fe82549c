import HubEngine
import Sync
import Testing

@Suite(.timeLimit(.minutes(15))) struct ActionTests {
    let engine = EngineFixture()

    /// The result in the frame, unescaped.
    private func result(_ heard: [Heard]) -> String? {
        let prefix = #"{"event":"sync:result","data":""#
        guard heard.count == 1, case .text(let text) = heard[0], text.hasPrefix(prefix) else { return nil }
        return String(text.dropFirst(prefix.count).dropLast(2)).replacing(#"\""#, with: #"""#)
    }

    private func isError(_ heard: [Heard]) -> Bool {
        guard heard.count == 1, case .text(let text) = heard[0] else { return false }
        return text.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#)
    }

    @Test func anActionIsItsSessionsUsers() throws {
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        #expect(try engine.act("k1", from: session) == [.act("k1", user: "u1")])
        // The text form of data, as pusher-js sends it.
        #expect(
            try engine.send(
                #"{"event":"sync:action","data":"{\"key\":\"k2\",\"type\":\"t\",\"payload\":{}}"}"#, from: session)
                == [.act("k2", user: "u1")])
        #expect(session.actionsInFlight == 2)
        #expect(
            result(engine.answered(#"{"key":"k1","status":"applied"}"#, session)) == #"{"key":"k1","status":"applied"}"#
        )
        #expect(session.actionsInFlight == 1)
    }

    @Test func anActionWithoutASignInIsRefused() throws {
        let session = engine.session(0)
        let answer = try #require(result(try engine.act("k", from: session)))
        #expect(
            answer.hasPrefix(
                #"{"key":"k","status":"retry","code":"unavailable","afterMs":1000,"message":"Sign in first"#))
        #expect(session.actionsInFlight == 0)
        _ = try engine.signin("u1", from: session)
        #expect(try engine.act("k", from: session) == [.act("k", user: "u1")])
    }

    @Test func noneAreTakenWhileRevocationsAreUnknown() throws {
        let session = engine.session(0)
        engine.core.identities.isRevocationCurrent = false
        _ = try engine.signin("u1", from: session)
        let answer = try #require(result(try engine.act("k", from: session)))
        #expect(answer.hasPrefix(#"{"key":"k","status":"retry","code":"unavailable","afterMs":1000,"#))
        #expect(session.actionsInFlight == 0)
        engine.core.identities.isRevocationCurrent = true
        #expect(try engine.act("k", from: session) == [.act("k", user: "u1")])
    }

    @Test func otherAppsTakeNone() throws {
        let session = engine.session(0, app: engine.otherApp)
        _ = try engine.signin("u1", from: session)
        #expect(isError(try engine.act("k", from: session)))
    }

    @Test func aKeyGetsAnAnswerAndNoKeyAnError() throws {
        let session = engine.session(0)
        #expect(
            result(try engine.act("k", more: #","n":0"#, from: session))
                == #"{"key":"k","status":"rejected","code":"invalid","path":"n","#
                + #""message":"must be a whole number, from 1 on","numberUsed":false}"#)
        #expect(isError(try engine.act("", from: session)))
        #expect(isError(try engine.send(#"{"event":"sync:action"}"#, from: session)))
        #expect(isError(try engine.send(#"{"event":"sync:action","data":{"type":"t","payload":{}}}"#, from: session)))
    }

    @Test func actionsUnderWayAtTheBoundAndOnePast() throws {
        var limits = ChannelLimits()
        limits.actionsPerSessionMax = 2
        let engine = EngineFixture(limits: limits)
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        for key in ["a", "b"] { #expect(try engine.act(key, from: session) == [.act(key, user: "u1")]) }
        let answer = try #require(result(try engine.act("c", from: session)))
        #expect(answer.hasPrefix(#"{"key":"c","status":"retry","code":"busy","afterMs":"#))
        #expect(session.actionsInFlight == 2, "what is refused is not under way")
        _ = engine.answered("{}", session)
        #expect(try engine.act("c", from: session) == [.act("c", user: "u1")])
        // Another session of the user has a bound of its own.
        let other = engine.session(1)
        _ = try engine.signin("u1", from: other)
        #expect(try engine.act("d", from: other) == [.act("d", user: "u1")])
    }
}
