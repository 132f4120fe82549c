import HubEngine
import Metrics
import Pusher
import Reactor
import TestHub
import Testing

@testable import API

/// Pusher's HTTP API over real sockets: each call's effect and answer.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PusherRouteTests {
    // MARK: Publishing

    @Test func publishesToOneChannelAndToMany() async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        let one = try await backend.ask(caller.publish("news", "e", #"{"a":"b"}"#))
        #expect(one.status == 200 && one.body == "{}")
        #expect(one.head.contains("Content-Type: application/json\r\n"))
        let many = #"{"name":"f","channels":["x","private-y"],"data":"d","socket_id":"12.34"}"#
        #expect(try await backend.ask(caller.post("/events", many)).body == "{}")
        #expect(backend.directory.published == [#"news e {"a":"b"}"#, "x f d but 12.34", "private-y f d but 12.34"])
    }

    @Test func tellsWhatIsAskedOfTheChannels() async throws {
        let backend = try await PusherBackend()
        backend.directory.set("presence-a", 3, users: ["1", "2"])
        backend.directory.set("b", 5)
        let body =
            #"{"name":"e","channels":["presence-a","b","c"],"data":"","info":"user_count,subscription_count"}"#
        #expect(
            try await backend.ask(backend.caller.post("/events", body)).body
                == #"{"channels":{"presence-a":{"user_count":2,"subscription_count":3},"b":{"subscription_count":5},"#
                + #""c":{"subscription_count":0}}}"#)
    }

    @Test func publishesABatchInItsOrder() async throws {
        let backend = try await PusherBackend()
        backend.directory.set("y", 13)
        let caller = backend.caller
        let plain = #"{"batch":[{"name":"a","channel":"x","data":"1"},{"name":"b","channel":"y","data":"2"}]}"#
        #expect(try await backend.ask(caller.post("/batch_events", plain)).body == "{}")
        let asking = plain.replacing(#""y","#, with: #""y","info":"subscription_count","#)
        #expect(
            try await backend.ask(caller.post("/batch_events", asking)).body
                == #"{"batch":[{},{"subscription_count":13}]}"#)
        #expect(backend.directory.published == ["x a 1", "y b 2", "x a 1", "y b 2"])
        let half = plain.replacing(#""y""#, with: #""no name""#)
        let refused = try await backend.ask(caller.post("/batch_events", half))
        #expect(refused.status == 400 && refused.body.contains("batch[1]: channel is no channel name"))
        #expect(backend.directory.published.count == 4, "valid as a whole or not at all")
    }

    /// Many libraries escape letters beyond ASCII, which triples their length.
    @Test func theLargestBatchOfEscapedLettersIsTaken() async throws {
        let backend = try await PusherBackend()
        let data = String(repeating: "\\u00e9", count: 5_120)
        let events = (0..<10).map { #"{"name":"e\#($0)","channel":"x","data":"\#(data)"}"# }
        let batch = #"{"batch":[\#(events.joined(separator: ","))]}"#
        #expect(batch.utf8.count > 300_000 && batch.utf8.count <= AppLimits().bodyBytes)
        #expect(try await backend.ask(backend.caller.post("/batch_events", batch)).status == 200)
        #expect(backend.directory.published.last == "x e9 " + String(repeating: "é", count: 5_120))
    }

    /// The largest allowed batch is accepted even if all of it must be escaped.
    @Test func theLargestBatchIsTaken() async throws {
        let backend = try await PusherBackend()
        let data = String(repeating: "\\\"", count: 10_240)
        let events = (0..<10).map { #"{"name":"e\#($0)","channel":"x","data":"\#(data)"}"# }
        let batch = #"{"batch":[\#(events.joined(separator: ","))]}"#
        #expect(try await backend.ask(backend.caller.post("/batch_events", batch)).status == 200)
        #expect(backend.directory.published.count == 10)
        let larger = batch.replacing(data + #""}]"#, with: data + #"x"}]"#)
        let refused = try await backend.ask(backend.caller.post("/batch_events", larger))
        #expect(refused.status == 413)
        #expect(
            refused.body.contains("The data content of this event exceeds the allowed maximum (10240 bytes)"))
    }

    /// With hosted Pusher's text and status, as pusher-http-php's acceptance suite expects.
    @Test(arguments: [10, 11]) func aBatchHasTenEventsAndNoMore(_ count: Int) async throws {
        let backend = try await PusherBackend()
        let events = (0..<count).map { #"{"channel":"test_channel","name":"my_event","data":"{\"index\":\#($0)}"}"# }
        let answer = try await backend.ask(
            backend.caller.post("/batch_events", #"{"batch":[\#(events.joined(separator: ","))]}"#))
        #expect(answer.status == (count == 10 ? 200 : 400))
        #expect(answer.body.contains("Batch too large") == (count == 11))
        #expect(backend.directory.published.count == (count == 10 ? 10 : 0))
        var exposition = Exposition()
        AppCounts.append(backend.directory.apps, to: &exposition)
        let text = String(decoding: exposition.bytes, as: UTF8.self)
        #expect(
            text.contains(
                #"carillon_app_limits_reached_total{app="1",limit="limits.batchEvents"} \#(count - 10)"# + "\n"))
        let status = count == 10 ? "2xx" : "4xx"
        #expect(text.contains(#"carillon_app_api_requests_total{app="1",status="\#(status)"} 1"# + "\n"))
    }

    /// Refused by every way to publish, including to a user or in a batch. Nothing is published.
    @Test(arguments: ["pusher:subscription_succeeded", "pusher_internal:member_removed"])
    func theHubsOwnEventsAreRefused(_ name: String) async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        let calls = [
            caller.publish("news", name), caller.publish("#server-to-user-u", name),
            caller.call("POST", "/events", [("name", name), ("data", "d"), ("channel", "x")]),
            caller.call("POST", "/channels/x/events", [("name", name)], body: "{}"),
            caller.post(
                "/batch_events",
                #"{"batch":[{"name":"e","channel":"x","data":""},{"name":"\#(name)","channel":"x","data":""}]}"#),
        ]
        for call in calls {
            let answer = try await backend.ask(call)
            #expect(answer.status == 400, "\(call)")
            #expect(
                answer.body.contains("name begins with pusher: or pusher_internal:, which are for the hub's own events")
            )
        }
        #expect(backend.directory.published.isEmpty)
        #expect(try await backend.ask(caller.publish("x", "client-e")).status == 200)
    }

    /// Publish parameters as in Pusher's "HTTP API reference", including the deprecated ones.
    @Test func publishesFromTheQueryAndTheOldWay() async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        let query = [("name", "e"), ("data", "a + b"), ("channels[]", "x"), ("channels[]", "y")]
        #expect(try await backend.ask(caller.call("POST", "/events", query)).status == 200)
        let old = try await backend.ask(
            caller.call("POST", "/channels/x%3Bz/events", [("name", "old"), ("socket_id", "1.2")], body: #"{"a":1}"#))
        #expect(old.status == 202 && old.body == "{}")
        #expect(old.head.hasPrefix("HTTP/1.1 202 Accepted\r\n"))
        #expect(backend.directory.published == ["x e a + b", "y e a + b", #"x;z old {"a":1} but 1.2"#])
    }

    @Test func whatIsTooMuchIsRefused() async throws {
        let backend = try await PusherBackend()
        backend.directory.isOverloaded = true
        let refused = try await backend.ask(backend.caller.publish("a"))
        #expect(refused.status == 503 && refused.head.contains("Retry-After: 1\r\n"))
        backend.directory.isOverloaded = false
        #expect(try await backend.ask(backend.caller.publish("a")).status == 200)
        #expect(backend.directory.published.count == 1)
    }

    /// All loops scan the app's channels, so only one list at a time is made.
    @Test func oneListAtATimeForEachApp() async throws {
        let apps = [App(id: "2", credentials: AppCredentials(key: "other", secret: "s"), index: 1, ownsDatabase: false)]
        let backend = try await PusherBackend(apps: apps)
        backend.directory.hold()
        try await backend.send(backend.caller.get("/channels"))
        await backend.directory.untilHeld()
        let second = try backend.connection()
        try await second.sendRaw(backend.caller.get("/channels"))
        let refused = try await second.response()
        #expect(refused.head.hasPrefix("HTTP/1.1 429 ") && refused.head.contains("Retry-After: 1\r\n"))
        #expect(refused.body.hasSuffix("\"code\":429}\n"))
        // The other app, and smaller queries, are not affected.
        var other = backend.caller
        (other.app, other.credentials) = ("2", apps[0].credentials)
        try await second.sendRaw(other.get("/channels") + backend.caller.get("/channels/a"))
        backend.directory.release()
        #expect(try await backend.answer().status == 200)
        for _ in 0..<2 { #expect(try await second.response().head.hasPrefix("HTTP/1.1 200 ")) }
        // After it is over, a list that is answered at once or refused does not block the next.
        for _ in 0..<2 {
            #expect(try await backend.ask(backend.caller.get("/channels")).status == 200)
            #expect(try await backend.ask(backend.caller.get("/channels", [("info", "cache")])).status == 400)
        }
    }

    @Test func answersThatComeLaterAreGivenInOrder() async throws {
        let backend = try await PusherBackend()
        backend.directory.hold()
        let caller = backend.caller
        try await backend.send(
            caller.publish("a") + caller.get("/channels") + caller.publish("b") + caller.get("/nothing"))
        await backend.directory.untilHeld()
        backend.directory.set("z", 1)
        backend.directory.release()
        #expect(try await backend.answer().body == "{}")
        #expect(try await backend.answer().body == #"{"channels":{"z":{}}}"#)
        #expect(try await backend.answer().body == "{}")
        #expect(try await backend.answer().status == 404)
    }

    // MARK: Asking

    @Test func tellsOfChannels() async throws {
        let backend = try await PusherBackend()
        backend.directory.set("presence-a", 3, users: ["7", "8"])
        backend.directory.set(
            "presence-cache-b", 1, users: ["7"],
            cached: CachedEvent(name: "e", data: Array(#""x""#.utf8), secondsLeft: 9))
        backend.directory.set("gone", 0)
        backend.directory.set("news", 2)
        let answers: [(String, [(String, String)], String)] = [
            ("/channels", [], #"{"channels":{"news":{},"presence-a":{},"presence-cache-b":{}}}"#),
            (
                "/channels", [("filter_by_prefix", "presence-"), ("info", "user_count")],
                #"{"channels":{"presence-a":{"user_count":2},"presence-cache-b":{"user_count":1}}}"#
            ),
            (
                "/channels", [("filter_by_prefix", "n"), ("info", "subscription_count")],
                #"{"channels":{"news":{"subscription_count":2}}}"#
            ),
            ("/channels", [("filter_by_prefix", "zzz")], #"{"channels":{}}"#),
            ("/channels/news", [], #"{"occupied":true}"#),
            ("/channels/none", [("info", "subscription_count")], #"{"occupied":false,"subscription_count":0}"#),
            (
                "/channels/presence-a", [("info", "user_count,subscription_count")],
                #"{"occupied":true,"user_count":2,"subscription_count":3}"#
            ),
            (
                "/channels/presence-cache-b", [("info", "cache,user_count")],
                #"{"occupied":true,"user_count":1,"cache":{"data":"\"x\"","ttl":9}}"#
            ),
            ("/channels/cache-c", [("info", "cache")], #"{"occupied":false,"cache":null}"#),
            ("/channels/presence-a/users", [], #"{"users":[{"id":"7"},{"id":"8"}]}"#),
            ("/channels/presence-none/users", [], #"{"users":[]}"#),
            ("/channels/presence-a/stats", [], #"{"occupied":true,"user_count":2,"connection_count":3}"#),
            ("/channels/gone/stats", [], #"{"occupied":false,"connection_count":0}"#),
        ]
        for (path, query, expected) in answers {
            let answer = try await backend.ask(backend.caller.get(path, query))
            #expect(answer.status == 200 && sortedChannels(answer.body) == expected, "\(path) \(query)")
        }
        backend.directory.hold()
        for (path, query, expected) in answers {
            try await backend.send(backend.caller.get(path, query))
            await backend.directory.untilHeld()
            backend.directory.release()
            backend.directory.hold()
            #expect(sortedChannels(try await backend.answer().body) == expected, "\(path) \(query), answered later")
        }
        backend.directory.release()
        backend.directory.isUnavailable = true
        for (path, query, _) in answers {
            let answer = try await backend.ask(backend.caller.get(path, query))
            #expect(answer.status == 503 && answer.head.contains("Retry-After: 1\r\n"), "\(path)")
        }
    }

    /// Lists up to a bound; beyond it the answer says how to ask for fewer.
    @Test func channelsAreListedUpToABound() async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        backend.directory.add(APILimits.channelsNamed - 1, named: "c")
        backend.directory.set("other", 1)
        let all = try await backend.ask(caller.get("/channels"))
        #expect(all.status == 200 && all.body.count > APILimits.channelsNamed * 8)
        backend.directory.set("other-2", 1)
        let tooMany = try await backend.ask(caller.get("/channels"))
        #expect(tooMany.status == 400 && tooMany.body.contains("filter_by_prefix"), "\(tooMany.body)")
        let few = try await backend.ask(caller.get("/channels", [("filter_by_prefix", "other")]))
        #expect(few.status == 200 && sortedChannels(few.body) == #"{"channels":{"other":{},"other-2":{}}}"#)
    }

    @Test func terminatesByBothPaths() async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        for path in ["/users/u%201/terminate_connections", "//users/u2/terminate_connections"] {
            let answer = try await backend.ask(caller.post(path, "{}"))
            #expect(answer.status == 200 && answer.body == "{}")
        }
        #expect(backend.directory.terminated == ["u 1", "u2"])
        var stranger = caller
        stranger.credentials = AppCredentials(key: "none", secret: "secret")
        #expect(try await backend.ask(stranger.post("//users/u3/terminate_connections", "{}")).status == 401)
        stranger.credentials = AppCredentials(key: "key", secret: "other")
        #expect(try await backend.ask(stranger.post("//users/u3/terminate_connections", "{}")).status == 401)
        #expect(backend.directory.terminated.count == 2)
    }

    // MARK: Refusals

    @Test(arguments: [
        ("GET", "/channels", "info=user_count", 400), ("GET", "/channels", "info=cache&filter_by_prefix=cache-", 400),
        ("GET", "/channels", "info=users", 400), ("GET", "/channels/news", "info=user_count", 400),
        ("GET", "/channels/news", "info=cache", 400), ("GET", "/channels/presence-a", "info=cache", 400),
        ("GET", "/channels/news/users", "", 400), ("GET", "/channels/a%20b", "", 400), ("GET", "/channels/", "", 400),
        ("GET", "/channels/news/nothing", "", 404), ("GET", "/nothing", "", 404), ("GET", "", "", 404),
        ("GET", "/channels/%FF", "", 404), ("GET", "/events", "", 405), ("GET", "/batch_events", "", 405),
        ("POST", "/channels", "", 405), ("POST", "/channels/news", "", 405), ("POST", "/channels/a/users", "", 405),
        ("GET", "/channels/a/events", "", 405), ("GET", "/users/a/terminate_connections", "", 405),
        ("POST", "/events", "name=e&channel=x", 400),
    ])
    func wrongCallsAreToldWhy(_ method: String, _ path: String, _ query: String, _ status: Int) async throws {
        let backend = try await PusherBackend()
        let pairs = query.split(separator: "&").map { $0.split(separator: "=").map(String.init) }.map { ($0[0], $0[1]) }
        let answer = try await backend.ask(backend.caller.call(method == "GET" ? "GET" : "POST", path, pairs))
        #expect(answer.status == status)
        #expect(answer.body.hasPrefix(#"{"error":""#) && answer.body.hasSuffix("\",\"code\":\(status)}\n"))
        #expect(answer.head.contains("Allow: ") == (status == 405))
    }

    @Test func onlyTheAppItselfIsHeard() async throws {
        var features = AppFeatures()
        features.isEnabled = false
        let asleep = App(
            id: "2", credentials: AppCredentials(key: "asleep", secret: "s"), index: 1, ownsDatabase: false,
            features: features)
        let rotating = App(
            id: "3", credentials: AppCredentials(key: "k3", secret: "new", previousSecret: "old"), index: 2,
            ownsDatabase: false)
        let backend = try await PusherBackend(apps: [asleep, rotating])
        func status(_ change: (inout PusherCaller) -> Void) async throws -> Int {
            var caller = backend.caller
            change(&caller)
            let answer = try await backend.ask(caller.publish("x"))
            #expect(answer.status == 200 || answer.body.hasPrefix(#"{"error":""#))
            return answer.status
        }
        #expect(try await status { _ in } == 200)
        #expect(try await status { $0.app = "4" } == 404)
        #expect(
            try await status { ($0.app, $0.credentials) = ("2", AppCredentials(key: "asleep", secret: "s")) } == 403)
        #expect(try await status { $0.app = "3" } == 401, "another app's signature")
        for secret in ["new", "old"] {
            let credentials = AppCredentials(key: "k3", secret: secret)
            #expect(try await status { ($0.app, $0.credentials) = ("3", credentials) } == 200)
        }
        for (time, expected) in [(-601, 401), (-600, 200), (600, 200), (601, 401)] as [(Int64, Int)] {
            #expect(try await status { $0.time += time } == expected)
        }
        #expect(backend.directory.published.count == 5)
        let tampered = backend.caller.publish("x").replacing(#""name":"e""#, with: #""name":"f""#)
        let answer = try await backend.ask(tampered)
        #expect(answer.status == 401 && answer.body.contains("body_md5"))
        let unsigned = "GET /apps/1/channels HTTP/1.1\r\nHost: h\r\n\r\n"
        #expect(try await backend.ask(unsigned).status == 401)
    }

    @Test func usersChannelsArePublishedToByTheDatabaseAlone() async throws {
        let owner = try await PusherBackend(ownsDatabase: true)
        for channel in ["user.1.adherence", "private-user.1.adherence", "user.x"] {
            let answer = try await owner.ask(owner.caller.publish(channel))
            #expect(answer.status == 400 && answer.body.contains("written to the database"))
            let batch =
                #"{"batch":[{"name":"e","channel":"a","data":""},{"name":"e","channel":"\#(channel)","data":""}]}"#
            #expect(try await owner.ask(owner.caller.post("/batch_events", batch)).body.contains("batch[1]: Channels"))
        }
        #expect(try await owner.ask(owner.caller.publish("users.1")).status == 200)
        #expect(owner.directory.published.count == 1)
        let other = try await PusherBackend()
        #expect(try await other.ask(other.caller.publish("user.1.adherence")).status == 200)
    }

    @Test func theAppsLimitsHold() async throws {
        var limits = AppLimits()
        limits.eventBytesMax = 4
        limits.channelsPerPublishMax = 2
        limits.batchEventsMax = 1
        let backend = try await PusherBackend(limits: limits)
        let caller = backend.caller
        #expect(try await backend.ask(caller.publish("x", "e", "1234")).status == 200)
        #expect(try await backend.ask(caller.publish("x", "e", "12345")).status == 413)
        let two = #"{"name":"e","channels":["x","y"],"data":""}"#
        #expect(try await backend.ask(caller.post("/events", two)).status == 200)
        #expect(try await backend.ask(caller.post("/events", two.replacing(#""y""#, with: #""y","z""#))).status == 400)
        let batch = #"{"batch":[{"name":"e","channel":"x","data":""}]}"#
        #expect(try await backend.ask(caller.post("/batch_events", batch)).status == 200)
        let event = #"{"name":"e","channel":"x","data":""}"#
        let more = batch.replacing(event, with: event + "," + event)
        #expect(try await backend.ask(caller.post("/batch_events", more)).status == 400)
    }

    @Test func fastAppsAreToldToWait() async throws {
        var limits = AppLimits()
        limits.publishesPerSecond = 1
        limits.publishesBurst = 3
        let backend = try await PusherBackend(limits: limits)
        let batch = #"{"batch":[{"name":"a","channel":"x","data":"1"},{"name":"b","channel":"y","data":"2"}]}"#
        #expect(try await backend.ask(backend.caller.post("/batch_events", batch)).status == 200)
        // A second or so may pass: at most one more is left, plus what the time adds.
        var statuses: [Int] = []
        while statuses.last != 429 {
            let answer = try await backend.ask(backend.caller.post("/batch_events", batch))
            statuses.append(answer.status)
            guard answer.status == 429 else { continue }
            let wait = answer.head.split(separator: "\r\n").first { $0.hasPrefix("Retry-After: ") }
            #expect(["Retry-After: 1", "Retry-After: 2"].contains(wait ?? ""))
        }
        #expect(try await backend.ask(backend.caller.get("/channels")).status == 200, "asking is not publishing")
    }

    // MARK: Metrics

    @Test func callsAreCounted() async throws {
        let backend = try await PusherBackend(ownsDatabase: true)
        let caller = backend.caller
        _ = try await backend.ask(caller.post("/events", #"{"name":"f","channels":["x","y"],"data":"d"}"#))
        _ = try await backend.ask(caller.publish("user.1.a"))
        _ = try await backend.ask(caller.get("/channels"))
        var late = caller
        late.time -= 1_000
        _ = try await backend.ask(late.get("/channels/x"))
        let text = backend.metrics.text
        for line in [
            #"api_requests_total{route="events",status="2xx"} 1"#,
            #"api_requests_total{route="events",status="4xx"} 1"#,
            #"api_requests_total{route="channels",status="2xx"} 1"#,
            #"api_requests_total{route="channel",status="4xx"} 1"#, "published_events_total 2",
            #"api_refusals_total{reason="invalid"} 1"#, #"api_refusals_total{reason="timestamp"} 1"#,
        ] {
            #expect(text.contains("\ncarillon_\(line)\n"), "\(line)")
        }
        #expect(!text.contains("user.1"))
    }
}
