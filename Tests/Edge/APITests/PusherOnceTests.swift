import Clock
import Gateway
import HTTP
import HubEngine
import Pusher
import Reactor
import TestHub
import Testing

@testable import API

/// Repeated publishes: by a backend that missed the answer, and by an attacker who listened.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PusherOnceTests {
    private static func key(_ text: String) -> String { "Idempotency-Key: \(text)\r\n" }

    // MARK: Idempotency-Key

    @Test func aRepeatGetsTheFirstAnswer() async throws {
        let backend = try await PusherBackend()
        backend.directory.set("x", 1)
        var caller = backend.caller
        let body = #"{"name":"e","channel":"x","data":"","info":"subscription_count"}"#
        let first = try await backend.ask(caller.post("/events", body, fields: Self.key("k1")))
        #expect(first.body == #"{"channels":{"x":{"subscription_count":1}}}"#)
        backend.directory.set("x", 2)
        caller.time += 5
        for _ in 0..<3 {
            let repeated = try await backend.ask(caller.post("/events", body, fields: Self.key("k1")))
            #expect(repeated.status == 200 && repeated.body == first.body)
        }
        // Also from a connection on the other loop.
        let other = try backend.connection()
        try await other.sendRaw(caller.post("/events", body, fields: Self.key("k1")))
        #expect(try await other.response().body == first.body)
        #expect(backend.directory.published.count == 1)
        #expect(backend.metrics.text.contains("\ncarillon_api_repeats_total 4\n"))
        #expect(try await backend.ask(caller.post("/events", body, fields: Self.key("k2"))).body.contains(":2}"))
        #expect(try await backend.ask(caller.post("/events", body)).status == 200)
        #expect(backend.directory.published.count == 3)
    }

    /// The deprecated publish.
    @Test func aRepeatToTheChannelItselfGetsTheFirstAnswer() async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        for data in ["1", "1", "2"] {
            let answer = try await backend.ask(
                caller.call("POST", "/channels/x/events", [("name", "old")], body: data, fields: Self.key("k")))
            #expect(answer.status == (data == "1" ? 202 : 422))
        }
        #expect(backend.directory.published == ["x old 1"])
    }

    @Test func anotherCallUnderTheKeyIsRefused() async throws {
        let apps = [App(id: "2", credentials: AppCredentials(key: "other", secret: "s"), index: 1, ownsDatabase: false)]
        let backend = try await PusherBackend(apps: apps)
        let caller = backend.caller
        #expect(try await backend.ask(caller.publish("x", fields: Self.key("k"))).status == 200)
        let other = try await backend.ask(caller.publish("y", fields: Self.key("k")))
        #expect(other.status == 422 && other.body.hasSuffix("\"code\":422}\n"))
        let batch = #"{"batch":[{"name":"e","channel":"x","data":"{}"}]}"#
        #expect(try await backend.ask(caller.post("/batch_events", batch, fields: Self.key("k"))).status == 422)
        let query = [("name", "e"), ("data", ""), ("channel", "x")]
        #expect(try await backend.ask(caller.call("POST", "/events", query, fields: Self.key("q"))).status == 200)
        let changed = [("name", "e"), ("data", ""), ("channel", "y")]
        #expect(try await backend.ask(caller.call("POST", "/events", changed, fields: Self.key("q"))).status == 422)
        var stranger = caller
        (stranger.app, stranger.credentials) = ("2", apps[0].credentials)
        #expect(try await backend.ask(stranger.publish("y", fields: Self.key("k"))).status == 200, "a key is its app's")
        #expect(backend.directory.published.count == 3)
    }

    @Test func aRepeatOfWhatIsUnderWayIsAConflict() async throws {
        let backend = try await PusherBackend()
        backend.directory.hold()
        let request = backend.caller.publish("x", fields: Self.key("k"))
        try await backend.send(request)
        await backend.directory.untilHeld()
        let other = try backend.connection()
        try await other.sendRaw(request)
        #expect(try await other.response().head.hasPrefix("HTTP/1.1 409 "))
        backend.directory.release()
        #expect(try await backend.answer().status == 200)
        try await other.sendRaw(request)
        #expect(try await other.response().head.hasPrefix("HTTP/1.1 200 "))
        #expect(backend.directory.published.count == 1)
    }

    /// The answer is kept although the connection that waited for it is gone.
    @Test func aBackendThatHungUpGetsItLater() async throws {
        let backend = try await PusherBackend()
        backend.directory.hold()
        let request = backend.caller.publish("x", fields: Self.key("k"))
        do {
            let lost = try backend.connection()
            try await lost.sendRaw(request)
            await backend.directory.untilHeld()
            await lost.resetAtTheEnd()
        }
        // The hub has seen it close; the remaining connection is the backend's other one.
        while backend.fixture.gateway.connectionCount > 1 { await Task.yield() }
        backend.directory.release()
        #expect(try await backend.ask(request).status == 200)
        #expect(backend.directory.published.count == 1)
    }

    /// Nobody knows whether it was done: the same call may try again.
    @Test(arguments: [false, true]) func aStateOutOfReachLeavesTheKeyFree(isLater: Bool) async throws {
        let backend = try await PusherBackend()
        let request = backend.caller.publish("x", fields: Self.key("k"))
        backend.directory.isUnavailable = true
        if isLater { backend.directory.hold() }
        try await backend.send(request)
        if isLater {
            await backend.directory.untilHeld()
            backend.directory.release()
        }
        let refused = try await backend.answer()
        #expect(refused.status == 503 && refused.head.contains("Retry-After: 1\r\n"))
        backend.directory.isUnavailable = false
        #expect(try await backend.ask(request).status == 200)
        #expect(backend.directory.published.count == 2)
    }

    /// A caller is told what it may do.
    @Test(arguments: [
        (StateFault.notDone, 1, "has published nothing"), (.settling, 3, "Nothing was published"),
        (.unknown, 1, "nobody knows whether this was published"),
    ]) func whatIsKnownOfAPublishIsTold(_ fault: StateFault, _ seconds: Int, _ words: String) async throws {
        let backend = try await PusherBackend()
        backend.directory.isUnavailable = true
        backend.directory.fault = fault
        let refused = try await backend.ask(backend.caller.publish("x"))
        #expect(refused.status == 503 && refused.body.contains(words), "\(refused.body)")
        #expect(refused.head.contains("Retry-After: \(seconds)\r\n"))
        let question = try await backend.ask(backend.caller.get("/channels/x"))
        #expect(question.status == 503 && question.body.contains("ask again"), "\(question.body)")
    }

    @Test func whatIsRefusedLeavesTheKeyFree() async throws {
        let backend = try await PusherBackend()
        let caller = backend.caller
        #expect(try await backend.ask(caller.publish("no name", fields: Self.key("k"))).status == 400)
        #expect(try await backend.ask(caller.publish("name", fields: Self.key("k"))).status == 200)
    }

    @Test(arguments: [(255, 200), (256, 400), (0, 400)])
    func keysAreBounded(_ bytes: Int, _ status: Int) async throws {
        let backend = try await PusherBackend()
        let key = Self.key(String(repeating: "k", count: bytes))
        #expect(try await backend.ask(backend.caller.publish("x", fields: key)).status == status)
    }

    @Test func keysMayMeanNothing() async throws {
        let backend = try await PusherBackend { $0.idempotencyKeysMax = 0 }
        for _ in 0..<2 {
            #expect(try await backend.ask(backend.caller.publish("x", fields: Self.key("k"))).status == 200)
        }
        #expect(backend.directory.published.count == 2)
    }

    // MARK: Replays

    @Test func replaysAreRefusedWhereThatIsWanted() async throws {
        let careless = try await PusherBackend()
        for _ in 0..<2 { #expect(try await careless.ask(careless.caller.publish("x")).status == 200) }
        let careful = try await PusherBackend { $0.refusesReplays = true }
        var caller = careful.caller
        #expect(try await careful.ask(caller.publish("x")).status == 200)
        let replay = try await careful.ask(caller.publish("x"))
        #expect(replay.status == 401 && replay.body.contains("come before"))
        #expect(try await careful.ask(caller.get("/channels")).status == 200)
        #expect(try await careful.ask(caller.get("/channels")).status == 401)
        caller.time += 1
        #expect(try await careful.ask(caller.publish("x")).status == 200)
        #expect(careful.directory.published.count == 2)
        #expect(careful.metrics.text.contains("\ncarillon_api_refusals_total{reason=\"replay\"} 2\n"))
    }

    /// A hub that has just started does not know earlier calls.
    @Test func whatMayHaveComeBeforeTheStartIsRefused() async throws {
        let backend = try await PusherBackend { $0.refusesReplays = true }
        let start = backend.caller.time - 1
        var caller = backend.caller
        for (time, status) in [(start - 500, 401), (start, 401), (start + 1, 200), (start + 500, 200)] {
            caller.time = time
            let answer = try await backend.ask(caller.publish("x"))
            #expect(answer.status == status, "\(time - start)")
            if status == 401 { #expect(answer.body.contains("signed before this hub was started")) }
        }
        #expect(backend.directory.published.count == 2)
        let careless = try await PusherBackend()
        caller.time = start - 500
        #expect(try await careless.ask(caller.publish("x")).status == 200)
    }

    /// An upper-case signature is the same signature.
    @Test func aReplayIsKnownInAnySpelling() async throws {
        let backend = try await PusherBackend { $0.refusesReplays = true }
        let request = backend.caller.publish("x")
        let start = try #require(request.range(of: "auth_signature=")?.upperBound)
        let code = request[start...].prefix(64)
        #expect(try await backend.ask(request).status == 200)
        #expect(try await backend.ask(request.replacing(code, with: code.uppercased())).status == 401)
    }

    @Test func whatWasRefusedMayComeAgain() async throws {
        let backend = try await PusherBackend { $0.refusesReplays = true }
        for _ in 0..<2 { #expect(try await backend.ask(backend.caller.publish("no name")).status == 400) }
    }

    /// A library that repeats its call unchanged gets the answer. The same call without its key is refused.
    @Test func aRepeatUnderItsKeyIsNoReplay() async throws {
        let backend = try await PusherBackend { $0.refusesReplays = true }
        let keyed = backend.caller.publish("x", fields: Self.key("k"))
        for _ in 0..<2 { #expect(try await backend.ask(keyed).status == 200) }
        #expect(try await backend.ask(backend.caller.publish("x")).status == 401)
        #expect(try await backend.ask(backend.caller.publish("x", fields: Self.key("other"))).status == 401)
        #expect(backend.directory.published.count == 1)
    }

    // MARK: Bounds of what is kept

    private static func kept(
        _ answers: IdempotencyCache, _ key: String, of app: Int = 0, at seconds: UInt64, call: UInt8 = 0
    ) -> IdempotencyCache.Verdict {
        answers.begin(
            IdempotencyCache.Key(index: app, bytes: Array(key.utf8)), digest(call),
            at: Instant(nanoseconds: seconds * 1_000_000_000))
    }

    private static func digest(_ call: UInt8) -> CallDigest {
        [call].withUnsafeBytes { body in
            [].withUnsafeBytes { CallDigest(path: $0, body: body, try! CallParameters(query: $0)) }
        }
    }

    private static func isNew(_ verdict: IdempotencyCache.Verdict) -> Bool {
        if case .new = verdict { true } else { false }
    }

    @Test func answersAreKeptForTheirTime() {
        let answers = IdempotencyCache(keysMax: 10, time: .seconds(60))
        guard case .new(let ticket) = Self.kept(answers, "k", at: 100) else {
            _ = Issue.record("not new")
            return
        }
        answers.settle(ticket, ChannelAnswers.nothing)
        guard case .kept(let answer) = Self.kept(answers, "k", at: 159) else {
            _ = Issue.record("not kept")
            return
        }
        #expect(answer.status == .ok)
        guard case .otherCall = Self.kept(answers, "k", at: 159, call: 1) else {
            _ = Issue.record("the same")
            return
        }
        #expect(Self.isNew(Self.kept(answers, "k", at: 160, call: 1)))
        #expect(answers.size.keys == 1 && answers.size.bytes == 0)
    }

    @Test func theOldestKeyMakesRoom() {
        let answers = IdempotencyCache(keysMax: 3, time: .seconds(60))
        for key in ["a", "b", "c"] {
            guard case .new(let ticket) = Self.kept(answers, key, at: 1) else { continue }
            answers.settle(ticket, ChannelAnswers.nothing)
        }
        #expect(answers.size.keys == 3)
        #expect(Self.isNew(Self.kept(answers, "d", at: 1)))
        #expect(answers.size.keys == 3 && answers.size.bytes == 4)
        for key in ["b", "c"] {
            guard case .kept = Self.kept(answers, key, at: 1) else {
                _ = Issue.record("\(key) is gone")
                return
            }
        }
        #expect(Self.isNew(Self.kept(answers, "a", at: 1)))
    }

    @Test func answersAreBoundedInBytes() {
        let answers = IdempotencyCache(keysMax: 1_000, time: .seconds(60), bytesMax: 100)
        let answer = HTTPResponse(.ok, body: [UInt8](repeating: 0x20, count: 50))
        for key in ["a", "b", "c"] {
            guard case .new(let ticket) = Self.kept(answers, key, at: 1) else { continue }
            answers.settle(ticket, answer)
            #expect(answers.size.bytes <= 100)
        }
        #expect(answers.size.keys == 2)
        guard case .new(let ticket) = Self.kept(answers, "d", at: 1) else {
            _ = Issue.record("not new")
            return
        }
        answers.settle(ticket, HTTPResponse(.ok, body: [UInt8](repeating: 0x20, count: 101)))
        #expect(answers.size == (0, 0))
    }

    /// Abandoned keys leave nothing behind, even while an older one stays.
    @Test func keysThatAreGivenUpTakeNoRoom() {
        let answers = IdempotencyCache(keysMax: 10, time: .seconds(60))
        _ = Self.kept(answers, "old", at: 1)
        for number in 0..<10_000 {
            guard case .new(let ticket) = Self.kept(answers, "\(number % 2)", at: 1) else { continue }
            answers.abandon(ticket)
            // Of an earlier use of the key.
            answers.settle(ticket, ChannelAnswers.nothing)
        }
        #expect(answers.size == (1, 0))
        #expect(answers.orderCount < 200)
    }

    /// Begins and completes a call; false if the key is not new.
    private static func keep(_ answers: IdempotencyCache, _ key: String, of app: Int, bytes: Int = 2) -> Bool {
        guard case .new(let ticket) = kept(answers, key, of: app, at: 1) else { return false }
        answers.settle(ticket, HTTPResponse(.ok, body: [UInt8](repeating: 0x20, count: bytes)))
        return true
    }

    private static func isKept(_ answers: IdempotencyCache, _ key: String, of app: Int) -> Bool {
        if case .kept = kept(answers, key, of: app, at: 1) { true } else { false }
    }

    /// An app that floods takes nothing from another, and gives up its own keys for another app that comes later.
    @Test func anAppHasItsShareOfKeysWhateverOthersDo() {
        let answers = IdempotencyCache(keysMax: 100, time: .seconds(60))
        for number in 0..<20 { #expect(Self.keep(answers, "\(number)", of: 1)) }
        for number in 0..<1_000 { #expect(Self.keep(answers, "\(number)", of: 0)) }
        #expect(answers.size.keys == 100)
        for number in 0..<20 { #expect(Self.isKept(answers, "\(number)", of: 1)) }
        for number in 920..<1_000 { #expect(Self.isKept(answers, "\(number)", of: 0)) }
        for number in 20..<50 { #expect(Self.keep(answers, "\(number)", of: 1)) }
        #expect(Self.keep(answers, "first", of: 2))
        for number in 0..<1_000 { #expect(Self.keep(answers, "more \(number)", of: 1)) }
        #expect(Self.isKept(answers, "first", of: 2))
        #expect(answers.size == (100, 200))
        for number in 960..<1_000 { #expect(Self.isKept(answers, "\(number)", of: 0)) }
        #expect(answers.orderCount < 1_000)
    }

    @Test func anAppHasItsShareOfBytesWhateverOthersDo() {
        let answers = IdempotencyCache(keysMax: 1_000, time: .seconds(60), bytesMax: 1_000)
        for number in 0..<4 { #expect(Self.keep(answers, "\(number)", of: 1, bytes: 100)) }
        for number in 0..<100 { #expect(Self.keep(answers, "\(number)", of: 0, bytes: 100)) }
        for number in 0..<4 { #expect(Self.isKept(answers, "\(number)", of: 1)) }
        #expect(answers.size == (10, 1_000))
    }

    /// A call in progress is not evicted, or its repeat would be carried out too. If nothing else can be evicted, there is
    /// no room.
    @Test func whatIsUnderWayIsNotGivenUp() {
        let answers = IdempotencyCache(keysMax: 3, time: .seconds(60))
        #expect(Self.isNew(Self.kept(answers, "a", at: 1)))
        for number in 0..<10 { #expect(Self.keep(answers, "\(number)", of: 0)) }
        guard case .underWay = Self.kept(answers, "a", at: 1), Self.isNew(Self.kept(answers, "b", at: 1)),
            Self.isNew(Self.kept(answers, "c", at: 1)), case .full = Self.kept(answers, "d", at: 1),
            case .full = Self.kept(answers, "d", of: 1, at: 1), case .underWay = Self.kept(answers, "a", at: 100)
        else {
            _ = Issue.record("given up")
            return
        }
        #expect(answers.size == (3, 0))
    }

    @Test func keysWhoseTimeIsOverGoLittleByLittle() {
        let answers = IdempotencyCache(keysMax: 100, time: .seconds(60))
        for number in 0..<50 { #expect(Self.keep(answers, "\(number)", of: 0)) }
        #expect(Self.isNew(Self.kept(answers, "49", at: 61)))
        #expect(answers.size.keys == 50 - 16)
        for number in 0..<3 { #expect(Self.isNew(Self.kept(answers, "new \(number)", at: 61))) }
        #expect(answers.size.keys == 4)
    }

    /// Expired keys of all apps are removed oldest first, the same number with each call.
    @Test func keysOfOthersWhoseTimeIsOverGoLittleByLittle() {
        let answers = IdempotencyCache(keysMax: 100, time: .seconds(60))
        for number in 0..<20 {
            for app in 0..<5 { #expect(Self.keep(answers, "\(number)", of: app)) }
        }
        for call in 1...6 {
            #expect(Self.isNew(Self.kept(answers, "\(call)", of: 9, at: 61)))
            #expect(answers.size.keys == 100 - 16 * call + call)
        }
        #expect(Self.isNew(Self.kept(answers, "last", of: 10, at: 61)))
        #expect(answers.size == (7, 0) && answers.orderCount == 0)
    }

    /// An app full of calls in progress evicts nothing of another app within its share.
    @Test func callsInProgressEvictNoOtherAppsShare() {
        let answers = IdempotencyCache(keysMax: 10, time: .seconds(60))
        for number in 0..<8 { #expect(Self.keep(answers, "\(number)", of: 1)) }
        for number in 0..<5 { #expect(Self.isNew(Self.kept(answers, "\(number)", of: 0, at: 1))) }
        guard case .full = Self.kept(answers, "5", of: 0, at: 1) else {
            _ = Issue.record("more than a share")
            return
        }
        for number in 3..<8 { #expect(Self.isKept(answers, "\(number)", of: 1)) }
        #expect(answers.size.keys == 10)
    }

    @Test func anAppThatCallsWithoutEndLeavesRoomForOthers() throws {
        let seen = ReplayGuard(callsMax: 100)
        let now: Int64 = 1_700_000_000
        var verdicts: [ReplayGuard.Verdict] = []
        for number in 0..<100 { verdicts.append(seen.insert(try Self.call(number, at: now), of: 0, now: now)) }
        #expect(verdicts == Array(repeating: .new, count: 80) + Array(repeating: .full, count: 20))
        for app in 1...3 { #expect(seen.insert(try Self.call(0, at: now), of: app, now: now) == .new) }
        #expect(seen.count == 83)
        let later = now + 661
        #expect(seen.insert(try Self.call(0, at: later), of: 0, now: later) == .new)
        #expect(seen.count == 1)
    }

    private static func call(_ number: Int, at time: Int64) throws -> SignedCall {
        var caller = PusherCaller()
        caller.time = time
        let target = caller.get("/channels", [("n", "\(number)")]).split(separator: " ")[1].split(separator: "?")
        return try Array(target[0].utf8).withUnsafeBytes { path in
            try Array(target[1].utf8).withUnsafeBytes { query in
                try [].withUnsafeBytes { body in
                    try SignedCall(
                        SignedCall.Request(method: "GET", path: path, query: query, body: body),
                        by: caller.credentials, now: time)
                }
            }
        }
    }

    @Test func callsAreRememberedAsLongAsTheyAreGood() throws {
        let seen = ReplayGuard(callsMax: 3)
        let now: Int64 = 1_700_000_000
        for number in 0..<3 { #expect(seen.insert(try Self.call(number, at: now), of: 0, now: now) == .new) }
        for number in 0..<3 { #expect(seen.insert(try Self.call(number, at: now), of: 0, now: now + 600) == .seen) }
        #expect(seen.insert(try Self.call(3, at: now), of: 0, now: now) == .full)
        #expect(seen.insert(try Self.call(3, at: now + 600), of: 0, now: now + 600) == .full)
        #expect(
            seen.insert(try Self.call(3, at: now + 661), of: 0, now: now + 661) == .new, "the old ones are good no more"
        )
        #expect(seen.count == 1)
        seen.remove(try Self.call(3, at: now + 661), of: 0)
        #expect(seen.count == 0)
    }

    private static func app(_ index: Int = 0, perSecond: Int, burst: Int, counts: AppCounts = AppCounts()) -> App {
        var limits = AppLimits()
        (limits.publishesPerSecond, limits.publishesBurst) = (perSecond, burst)
        return App(
            id: "\(index)", credentials: AppCredentials(key: "k", secret: "s"), index: index, ownsDatabase: false,
            limits: limits, counts: counts)
    }

    /// A higher rate counts at once: the debt at the old rate does not delay the app.
    @Test func aHigherRateCountsAtOnce() {
        let now = Instant(nanoseconds: 1_000_000_000)
        let slow = Self.app(perSecond: 1, burst: 3_600)
        #expect(slow.takePublishes(3_600, at: now) == nil)
        #expect(slow.takePublishes(1, at: now) == .seconds(1))
        let faster = Self.app(perSecond: 100, burst: 10, counts: slow.counts)
        #expect(faster.takePublishes(1, at: now) == .milliseconds(10))
        #expect(faster.takePublishes(1, at: now.advanced(by: .milliseconds(10))) == nil)
        #expect(faster.takePublishes(1, at: now.advanced(by: .milliseconds(10))) == .milliseconds(10))
        #expect(faster.takePublishes(10, at: now.advanced(by: .milliseconds(110))) == nil)
    }

    @Test func ratesAreFair() {
        let apps = (0..<3).map { Self.app($0, perSecond: 10, burst: 5) }
        let start = Instant(nanoseconds: 1_000_000_000)
        for _ in 0..<5 { #expect(apps[0].takePublishes(1, at: start) == nil) }
        #expect(apps[0].takePublishes(1, at: start) == .milliseconds(100))
        #expect(apps[1].takePublishes(1, at: start) == nil, "each app has its own")
        #expect(apps[0].takePublishes(1, at: start.advanced(by: .milliseconds(100))) == nil)
        #expect(apps[0].takePublishes(3, at: start.advanced(by: .milliseconds(100))) == .milliseconds(300))
        // A request above the burst takes the whole burst.
        #expect(apps[2].takePublishes(50, at: start) == nil)
        #expect(apps[2].takePublishes(1, at: start) == .milliseconds(100))
        let plain = Self.app(3, perSecond: 10, burst: 0)
        for _ in 0..<10 { #expect(plain.takePublishes(1, at: start) == nil) }
        #expect(plain.takePublishes(1, at: start) == .milliseconds(100), "a second's worth, where no burst is set")
        let free = Self.app(4, perSecond: 0, burst: 1)
        for _ in 0..<10 { #expect(free.takePublishes(100, at: start) == nil) }
    }

    /// All loops take from one allowance, and never more than it holds.
    @Test func aRateIsOneForAllThreads() async {
        let app = Self.app(perSecond: 1, burst: 1_000)
        let start = Instant(nanoseconds: 1_000_000_000)
        let taken = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask { (0..<1_000).count { _ in app.takePublishes(1, at: start) == nil } }
            }
            return await group.reduce(0, +)
        }
        #expect(taken == 1_000)
    }
}
