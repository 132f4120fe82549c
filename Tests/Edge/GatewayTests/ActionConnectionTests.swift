import Gateway
import TestDatabase
import TestHub
import TestSupport
import Testing

/// Actions from the socket to a real server and back.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ActionConnectionTests {
    private let toy: ToyActions

    init() throws {
        toy = try ToyActions()
    }

    private func fixture(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws -> GatewayFixture {
        try await GatewayFixture(ownsDatabase: true, actions: toy.configuration, change)
    }

    private func device(_ fixture: GatewayFixture, user: String = "u1") async throws -> TestClient {
        let (client, _) = try await TestClient.opened(port: fixture.port)
        let token = try await GatewayFixture.token(user)
        try await client.send(#"{"event":"sync:auth","data":{"token":"\#(token)"}}"#)
        guard case .text(let answer) = try await client.next(), answer.contains("sync:auth_ok") else {
            throw TestClient.Failure(reason: "not signed in")
        }
        return client
    }

    private func action(_ key: String, _ type: String, more: String = "") -> String {
        #"{"event":"sync:action","data":{"key":"\#(key)","type":"\#(type)","payload":{}\#(more)}}"#
    }

    /// The next message's result, unescaped.
    private func result(_ client: TestClient) async throws -> String {
        let prefix = #"{"event":"sync:result","data":""#
        guard case .text(let text) = try await client.next(), text.hasPrefix(prefix) else {
            throw TestClient.Failure(reason: "no result")
        }
        return String(text.dropFirst(prefix.count).dropLast(2)).replacing(#"\""#, with: #"""#)
    }

    /// A result with that key, by asking again while the store is not up yet.
    private func settled(_ client: TestClient, _ key: String, _ type: String, more: String = "") async throws -> String
    {
        while true {
            try await client.send(action(key, type, more: more))
            let result = try await result(client)
            if !result.contains(#""code":"unavailable""#) { return result }
        }
    }

    private func untilHeld(_ count: Int) async throws {
        while try toy.heldCount() < count { await Task.yield() }
    }

    @Test func everythingReachesTheDatabaseAndItsAnswerTheSocket() async throws {
        let fixture = try await fixture()
        let client = try await device(fixture)
        let more = #","deviceId":"d","n":7,"base":{"rev":3},"clientTime":"x","tz":"UTC""#
        let answer = try await settled(client, "k", "applied", more: more)
        for part in [
            #""key": "k""#, #""who": "u1""#, #""device": "d""#, #""n": 7"#, #""base": {"rev": 3}"#,
            #""clientTime": "x""#,
            #""tz": "UTC""#, #""payload": {}"#,
        ] { #expect(answer.contains(part), "\(answer)") }
    }

    @Test func aConnectionsActionsAreAnsweredInOrder() async throws {
        let fixture = try await fixture()
        let client = try await device(fixture)
        _ = try await settled(client, "first", "noop")
        for number in 0..<100 { try await client.send(action("k\(number)", "applied")) }
        for number in 0..<100 { #expect(try await result(client).contains("\"k\(number)\"")) }
    }

    @Test func withoutAStoreThereIsARetry() async throws {
        let fixture = try await GatewayFixture(ownsDatabase: true)
        let client = try await device(fixture)
        try await client.send(action("k", "applied"))
        #expect(
            try await result(client).hasPrefix(#"{"key":"k","status":"retry","code":"unavailable","afterMs":60000"#))
    }

    /// The answer to an action whose socket is gone reaches nobody, also when another has taken its place.
    @Test func answersOfTheGoneReachNobody() async throws {
        let fixture = try await fixture { $0.loops = 1 }
        var client: TestClient? = try await device(fixture)
        _ = try await settled(try #require(client), "first", "noop")
        try toy.hold()
        try await client?.send(action("held", "held"))
        try await untilHeld(1)
        client = nil
        while fixture.gateway.connectionCount > 0 { await Task.yield() }
        let next = try await device(fixture)
        try await next.send(action("after", "applied"))
        try toy.release()
        // Of one user, actions are applied in their order: the first one's answer has passed by.
        #expect(try await result(next).contains(#""key": "after""#))
    }

    @Test func whatIsUnderWayIsAnsweredBeforeTheEnd() async throws {
        let fixture = try await fixture {
            $0.timeouts.drain = .seconds(30)
            // So that all are told of the end at once.
            $0.loops = 1
        }
        let idle = try await device(fixture, user: "u2")
        let busy = try await device(fixture)
        _ = try await settled(busy, "first", "noop")
        try toy.hold()
        try await busy.send(action("a", "held"))
        try await busy.send(action("b", "applied"))
        try await busy.send(#"{"event":"pusher:ping","data":{}}"#)
        #expect(try await busy.next() == .text(#"{"event":"pusher:pong","data":"{}"}"#), "both are read")
        try await untilHeld(1)
        let end = fixture.end()
        #expect(try await idle.next() == .close(1001))
        // Not read any more: it would be answered otherwise.
        try await busy.send(action("late", "applied"))
        try toy.release()
        #expect(try await result(busy).contains(#""key": "a""#))
        #expect(try await result(busy).contains(#""key": "b""#))
        #expect(try await busy.next() == .close(1001))
        await end.value
    }

    @Test func theEndDoesNotWaitForEver() async throws {
        let fixture = try await fixture { $0.timeouts.drain = .milliseconds(50) }
        let client = try await device(fixture)
        _ = try await settled(client, "first", "noop")
        try toy.hold()
        try await client.send(action("a", "held"))
        try await untilHeld(1)
        let end = fixture.end()
        #expect(try await client.next() == .close(1001))
        try toy.release()
        await end.value
    }
}
