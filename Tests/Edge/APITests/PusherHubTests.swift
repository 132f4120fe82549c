import API
import Clock
import Gateway
import HubEngine
import Pusher
import Sync
import TestHub
import Testing

/// Pusher's HTTP API with the hub's own channels, over several loops: clients receive what a backend publishes.
@Suite(.eachState, .ownThread, .timeLimit(.minutes(15))) struct PusherHubTests {
    /// A backend whose calls are signed with the current time.
    private struct Backend {
        let caller: PusherCaller
        let connection: TestClient

        init(_ fixture: GatewayFixture) throws {
            var caller = PusherCaller(credentials: fixture.credentials)
            caller.time = UnixTime.read().microseconds / 1_000_000
            self.caller = caller
            connection = try TestClient(port: fixture.port)
        }

        /// The body of the answer, which must be 200.
        func ask(_ request: String) async throws -> String {
            try await connection.sendRaw(request)
            let (head, body) = try await connection.response()
            #expect(head.hasPrefix("HTTP/1.1 200 "), "\(head)\(body)")
            return body
        }
    }

    private func subscribed(
        _ fixture: GatewayFixture, _ channel: String, member: String? = nil
    ) async throws -> (TestClient, socketID: String) {
        let (client, socketID) = try await TestClient.opened(port: fixture.port)
        let id = try #require(Array(socketID.utf8).withUnsafeBytes { SocketID($0) })
        let name = try #require(ChannelName(channel))
        let data = member.map { #"{"user_id":"\#($0)"}"# }
        let auth =
            name.kind.needsAuthentication
            ? fixture.credentials.sign(.channel(name, channelData: data), socketID: id) : ""
        let members = data.map { #","channel_data":"\#($0.replacing("\"", with: "\\\""))""# } ?? ""
        try await client.send(
            #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)","auth":"\#(auth)"\#(members)}}"#)
        guard case .text(let answer) = try await client.next(), answer.contains("subscription_succeeded") else {
            throw TestClient.Failure(reason: "not subscribed to \(channel)")
        }
        return (client, socketID)
    }

    /// With four loops, some clients and the backend's connection are not on the loop of the channel's shard.
    @Test(arguments: ["news", "private-a", "presence-a", "private-encrypted-a", "cache-a"])
    func everySubscriberHearsButTheSender(_ channel: String) async throws {
        let fixture = try await GatewayFixture(loops: 4)
        var clients: [(TestClient, socketID: String)] = []
        for _ in 0..<8 {
            clients.append(try await subscribed(fixture, channel, member: channel.hasPrefix("presence") ? "7" : nil))
        }
        // Subscribers of a cache channel first get a cache miss.
        if channel.hasPrefix("cache") { for (client, _) in clients { _ = try await client.next() } }
        let backend = try Backend(fixture)
        #expect(try await backend.ask(backend.caller.publish(channel, "e", #"{"n":1}"#)) == "{}")
        let event = #"{"event":"e","channel":"\#(channel)","data":"{\"n\":1}"}"#
        for (client, _) in clients { #expect(try await client.next() == .text(event)) }
        let but =
            #"{"name":"e","channel":"\#(channel)","data":"2","socket_id":"\#(clients[3].socketID)"}"#
        #expect(try await backend.ask(backend.caller.post("/events", but)) == "{}")
        #expect(try await backend.ask(backend.caller.publish(channel, "last", "3")) == "{}")
        for (index, (client, _)) in clients.enumerated() {
            if index != 3 {
                #expect(try await client.next() == .text(#"{"event":"e","channel":"\#(channel)","data":"2"}"#))
            }
            #expect(try await client.next() == .text(#"{"event":"last","channel":"\#(channel)","data":"3"}"#))
        }
    }

    /// Each call comes over another connection, and so another loop. An answer may leave before the event has reached the
    /// channel's shard, whose own loop may read the next call.
    @Test func publishesOfOneBackendKeepTheirOrder() async throws {
        let fixture = try await GatewayFixture(loops: 4)
        let channels = (0..<8).map { "room-\($0)" }
        var clients: [TestClient] = []
        for channel in channels { clients.append(try await subscribed(fixture, channel).0) }
        let backends = try (0..<8).map { _ in try Backend(fixture) }
        for number in 0..<400 {
            let backend = backends[number % backends.count]
            let channel = channels[number / 50]
            #expect(try await backend.ask(backend.caller.publish(channel, "e", "\(number)")) == "{}")
        }
        for number in 0..<400 {
            let channel = channels[number / 50]
            #expect(
                try await clients[number / 50].next()
                    == .text(#"{"event":"e","channel":"\#(channel)","data":"\#(number)"}"#))
        }
    }

    /// A hundred channels spread over the shards: a publish is answered when every shard has passed it on.
    @Test func oneEventForManyChannels() async throws {
        let fixture = try await GatewayFixture(loops: 4)
        let names = (0..<100).map { "c\($0)" }
        let (client, _) = try await subscribed(fixture, names[0])
        for name in names.dropFirst() {
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"\#(name)"}}"#)
            _ = try await client.next()
        }
        let backend = try Backend(fixture)
        let list = names.map { "\"\($0)\"" }.joined(separator: ",")
        let body = #"{"name":"e","channels":[\#(list)],"data":"d","info":"subscription_count"}"#
        let answer = try await backend.ask(backend.caller.post("/events", body))
        #expect(
            answer == "{\"channels\":{" + names.map { #""\#($0)":{"subscription_count":1}"# }.joined(separator: ",")
                + "}}")
        var heard: Set<String> = []
        for _ in names {
            guard case .text(let text) = try await client.next() else { break }
            heard.insert(text)
        }
        #expect(heard == Set(names.map { #"{"event":"e","channel":"\#($0)","data":"d"}"# }))
    }

    @Test func tellsWhoIsThere() async throws {
        let fixture = try await GatewayFixture(loops: 3)
        var clients: [TestClient] = []
        for user in ["1", "2", "2", "3"] {
            clients.append(try await subscribed(fixture, "presence-a", member: user).0)
        }
        for _ in 0..<3 { clients.append(try await subscribed(fixture, "news").0) }
        clients.append(try await subscribed(fixture, "cache-n").0)
        let backend = try Backend(fixture)
        let caller = backend.caller
        #expect(
            sortedChannels(try await backend.ask(caller.get("/channels")))
                == #"{"channels":{"cache-n":{},"news":{},"presence-a":{}}}"#)
        #expect(
            try await backend.ask(caller.get("/channels", [("filter_by_prefix", "presence-"), ("info", "user_count")]))
                == #"{"channels":{"presence-a":{"user_count":3}}}"#)
        #expect(
            try await backend.ask(caller.get("/channels/presence-a", [("info", "user_count,subscription_count")]))
                == #"{"occupied":true,"user_count":3,"subscription_count":4}"#)
        #expect(
            try await backend.ask(caller.get("/channels/presence-a/users"))
                == #"{"users":[{"id":"1"},{"id":"2"},{"id":"3"}]}"#)
        #expect(try await backend.ask(caller.get("/channels/none")) == #"{"occupied":false}"#)
        #expect(
            try await backend.ask(caller.get("/channels/cache-n", [("info", "cache")]))
                == #"{"occupied":true,"cache":null}"#)
        _ = try await backend.ask(caller.publish("cache-n", "e", #"{"a":1}"#))
        let cached = try await backend.ask(caller.get("/channels/cache-n", [("info", "cache")]))
        #expect(cached.hasPrefix(#"{"occupied":true,"cache":{"data":"{\"a\":1}","ttl":"#))
    }

    /// A publish sees everything that a client did before it asked its backend to publish, and the client receives it.
    @Test func aPublishAfterASubscribeReachesIt() async throws {
        let fixture = try await GatewayFixture(loops: 4)
        let backend = try Backend(fixture)
        for number in 0..<40 {
            let (client, _) = try await subscribed(fixture, "room-\(number % 5)")
            _ = try await backend.ask(backend.caller.publish("room-\(number % 5)", "e", "\(number)"))
            #expect(
                try await client.next() == .text(#"{"event":"e","channel":"room-\#(number % 5)","data":"\#(number)"}"#))
        }
    }

    @Test func aTerminatedUserIsClosedOnAllLoops() async throws {
        let fixture = try await GatewayFixture(loops: 3)
        var clients: [TestClient] = []
        for user in ["u1", "u1", "u1", "u2"] {
            let (client, socketID) = try await TestClient.opened(port: fixture.port)
            let id = try #require(Array(socketID.utf8).withUnsafeBytes { SocketID($0) })
            let data = #"{"id":"\#(user)"}"#
            let auth = fixture.credentials.sign(.user(userData: data), socketID: id)
            try await client.send(
                #"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"{\"id\":\"\#(user)\"}"}}"#)
            guard case .text(let answer) = try await client.next(), answer.contains("signin_success") else {
                throw TestClient.Failure(reason: "not signed in")
            }
            clients.append(client)
        }
        let backend = try Backend(fixture)
        #expect(try await backend.ask(backend.caller.post("//users/u1/terminate_connections", "{}")) == "{}")
        for client in clients.prefix(3) {
            var last = try await client.next()
            while case .text = last { last = try await client.next() }
            #expect(last == .close(4009))
        }
        try await clients[3].send(#"{"event":"pusher:ping","data":{}}"#)
        #expect(try await clients[3].next() == .text(#"{"event":"pusher:pong","data":"{}"}"#))
    }

    /// Pages may not read the API's answers, and do not need them.
    @Test func pagesAreNotMeant() async throws {
        let fixture = try await GatewayFixture { $0.origins = .only(["https://app.example"]) }
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw("OPTIONS /apps/1/events HTTP/1.1\r\nHost: h\r\nOrigin: https://app.example\r\n\r\n")
        let (head, _) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 405 ") && !head.contains("Access-Control"))
    }

    @Test(arguments: [1, 2]) func callsAreCountedUnderTheAppThatTheyName(_ loops: Int) async throws {
        let apps = [TestApp(0).app, TestApp(1).app]
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: loops, metrics: metrics) { $0.apps = apps }
        let client = try TestClient(port: fixture.port)
        for (app, credentials, status, counted) in [
            ("1", apps[1].credentials, 401, #"app="1",status="4xx"} 1"#),
            ("1", apps[0].credentials, 200, #"app="1",status="2xx"} 1"#),
            ("2", apps[1].credentials, 200, #"app="2",status="2xx"} 1"#),
        ] {
            var caller = PusherCaller(credentials: credentials, app: app)
            caller.time = UnixTime.read().microseconds / 1_000_000
            try await client.sendRaw(caller.publish("private-x"))
            #expect(try await client.response().head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(metrics.text.contains("app_api_requests_total{\(counted)\n"))
        }
        #expect(metrics.text.contains(#"app_api_requests_total{app="2",status="4xx"} 0"#))
    }
}
