import HubEngine
import TestHub
import TestSupport
import Testing

@Suite(.ownThread, .eachState, .timeLimit(.minutes(15))) struct WatchlistConnectionTests {
    private let app = TestApp {
        $0.features.watchlists = true
        $0.limits.watchlistMax = 3
    }

    private func fixture(loops: Int = 2, grace: Duration = .milliseconds(50)) async throws -> GatewayFixture {
        try await GatewayFixture(loops: loops) {
            $0.apps = [app.app]
            $0.channelLimits.shards.leaveGrace = grace
        }
    }

    private func signedIn(
        _ fixture: GatewayFixture, _ user: String, watching list: [String] = []
    ) async throws -> TestClient {
        let (client, socketID) = try await TestClient.opened(fixture, app)
        let users = list.map { #""\#($0)""# }.joined(separator: ",")
        try await client.signin(user, more: list.isEmpty ? "" : #","watchlist":[\#(users)]"#, app, socketID)
        return client
    }

    private func events(_ name: String, _ users: String...) -> String {
        let ids = users.map { #"\"\#($0)\""# }.joined(separator: ",")
        return #"{"event":"pusher_internal:watchlist_events","data":"#
            + #""{\"events\":[{\"name\":\"\#(name)\",\"user_ids\":[\#(ids)]}]}"}"#
    }

    /// Watchers are told, whichever loop each of them is on.
    @Test(arguments: [1, 2, 4]) func usersSeeEachOtherComeAndGo(loops: Int) async throws {
        let fixture = try await fixture(loops: loops)
        var watchers: [TestClient] = []
        for number in 0..<5 {
            let watcher = try await signedIn(fixture, "w\(number)", watching: ["u"])
            #expect(try await watcher.text() == events("offline", "u"))
            watchers.append(watcher)
        }
        let user = try await signedIn(fixture, "u")
        let another = try await signedIn(fixture, "u")
        for watcher in watchers { #expect(try await watcher.text() == events("online", "u")) }
        let late = try await signedIn(fixture, "late", watching: ["u"])
        #expect(try await late.text() == events("online", "u"))
        try await user.send(0x8, [])
        #expect(try await user.next() == .close(nil))
        #expect(try await late.answersPing())
        try await another.send(0x8, [])
        for watcher in watchers + [late] { #expect(try await watcher.text() == events("offline", "u")) }
    }

    @Test func aReturnInTheGraceIsNoAbsence() async throws {
        let fixture = try await fixture(loops: 1, grace: .seconds(3600))
        let watcher = try await signedIn(fixture, "w", watching: ["u"])
        #expect(try await watcher.text() == events("offline", "u"))
        for _ in 0..<3 {
            let user = try await signedIn(fixture, "u")
            try await user.send(0x8, [0x03, 0xE9])
            #expect(try await user.next() == .close(1001))
        }
        _ = try await signedIn(fixture, "u")
        #expect(try await watcher.text() == events("online", "u"))
        #expect(try await watcher.answersPing())
    }

    @Test(arguments: [1, 3]) func aUserThatLeavesByRequestIsOfflineAtOnce(_ loops: Int) async throws {
        let fixture = try await fixture(loops: loops, grace: .seconds(3600))
        for (user, payload) in [("u", []), ("v", [0x03, 0xE8])] as [(String, [UInt8])] {
            let watcher = try await signedIn(fixture, "w", watching: [user])
            #expect(try await watcher.text() == events("offline", user))
            let leaver = try await signedIn(fixture, user)
            #expect(try await watcher.text() == events("online", user))
            try await leaver.send(0x8, payload)
            #expect(try await watcher.text() == events("offline", user))
        }
    }

    @Test func theListIsCutAndThatIsSaid() async throws {
        // From elsewhere, what is known of each user comes by itself.
        guard !SlowState.isElsewhere else { return }
        let fixture = try await fixture(loops: 1)
        let watcher = try await signedIn(fixture, "w", watching: ["a", "b", "c", "d"])
        #expect(
            try await watcher.text()
                == #"{"event":"pusher:error","data":{"code":4302,"message":"Watchlist limit exceeded"}}"#)
        #expect(try await watcher.text() == events("offline", "a", "b", "c"))
        #expect(try await watcher.answersPing())
        // Nothing is cut at the limit; a user who watches itself sees itself.
        let other = try await signedIn(fixture, "a", watching: ["a", "b", "c"])
        #expect(try await watcher.text() == events("online", "a"))
        #expect(try await other.text() == events("offline", "a", "b", "c"))
        #expect(try await other.text() == events("online", "a"))
        #expect(try await other.answersPing())
    }

    @Test func anAppThatStopsWatchingIsQuiet() async throws {
        // From elsewhere, what is known of each user comes by itself.
        guard !SlowState.isElsewhere else { return }
        let fixture = try await fixture(loops: 1)
        let watcher = try await signedIn(fixture, "w", watching: ["u"])
        #expect(try await watcher.text() == events("offline", "u"))
        var silent = app
        silent.features.watchlists = false
        try fixture.gateway.replaceApps([silent.app])
        #expect(try await watcher.answersPing())
        let user = try await signedIn(fixture, "u", watching: ["w"])
        #expect(try await user.answersPing())
        #expect(try await watcher.answersPing())
        // When it watches again, the hub knows who is online already.
        try fixture.gateway.replaceApps([app.app])
        let late = try await signedIn(fixture, "late", watching: ["u", "w", "x"])
        let first = try await late.text()
        #expect(
            first == #"{"event":"pusher_internal:watchlist_events","data":"{\"events\":["#
                + #"{\"name\":\"online\",\"user_ids\":[\"u\",\"w\"]},{\"name\":\"offline\",\"user_ids\":[\"x\"]}]}"}"#)
    }
}
