import Care
import JSON
import Testing

@testable import CarillonClient

/// Transcripts: what the machine is told, and what it asks for.
@Suite struct MachineTests {
    private let now = Timestamp(microseconds: 1_763_629_200_000_000)

    /// A machine with what it has asked for.
    private struct Desk {
        var machine = ClientMachine(user: "u", backoff: JitteredWait(baseMs: 1000, capMs: 30_000))
        let storage: MemoryStorage
        var log: [String] = []
        let now: Timestamp

        /// The kinds that a test is about.
        mutating func tell(_ input: (inout ClientMachine, inout [ClientEffect]) -> Void) -> [String] {
            var effects: [ClientEffect] = []
            input(&machine, &effects)
            let lines = effects.compactMap(Self.line)
            log += lines
            return lines
        }

        mutating func hear(_ frames: String...) -> [String] {
            tell { [storage, now] in $0.hear(frames, storage, at: now, random: 0.5, &$1) }
        }

        private static func line(_ effect: ClientEffect) -> String? {
            switch effect {
            case .connect: return "connect"
            case .disconnect: return "disconnect"
            case .send(let text):
                let frame = JSONTree.parsed(text)
                let data = frame["data"] ?? .null
                let what = data["channel"]?.string ?? data["key"]?.string ?? data["token"]?.string
                let named = data["channels"]?.members.map { "\($0.name)@\($0.value["offset"]?.integer ?? -1)" }.sorted()
                let n = data["n"]?.integer.map { " #\($0)" } ?? ""
                return "send \(frame["event"]?.string ?? "") \(what ?? named?.joined(separator: " ") ?? "")\(n)"
            case .token: return "token"
            case .fetch(let topic, let parts, _): return "fetch \(topic) \(parts.count)"
            case .timer(.quiet, _), .cancel, .changed: return nil
            case .timer(let timer, let milliseconds): return "wait \(timer) \(milliseconds)"
            case .authorize(let channel, let socket, let serial): return "authorize \(channel) \(socket) #\(serial)"
            case .connection(let state): return state.rawValue
            case .problem(let error): return error.map { "problem \($0)" }
            case .message(let channel, let event, _): return "message \(channel) \(event)"
            }
        }

        /// The line is open, and the user signed in.
        mutating func open() {
            _ = tell { $0.start(&$1) }
            _ = hear(#"{"event": "pusher:connection_established", "data": "{\"activity_timeout\": 60}"}"#)
            _ = tell { $0.token(.success("T"), serial: $0.session.serial, random: 0.5, &$1) }
            _ = hear(Self.signedIn)
        }

        static let signedIn = #"{"event": "sync:auth_ok", "data": "{\"userId\": \"u\"}"}"#
    }

    private func desk(_ mirror: Mirror? = nil) -> Desk {
        Desk(storage: mirror.map { MemoryStorage($0) } ?? MemoryStorage(), now: now)
    }

    private func stored(_ offset: Int64 = 7) -> Mirror {
        var mirror = Mirror(entities: [.dose("d1"), .dose("d2")], meta: [MirrorKey.device: "phone"])
        for topic in Topic.allCases { mirror.put(StoredPosition(epoch: "e", offset: offset), of: "user.u.\(topic)") }
        return mirror
    }

    // MARK: The line

    @Test func aFirstStartFetchesSnapshots() {
        var desk = desk()
        #expect(desk.tell { $0.start(&$1) } == ["connect", "connecting"])
        #expect(
            desk.hear(#"{"event": "pusher:connection_established", "data": "{\"activity_timeout\": 60}"}"#) == [
                "signing_in", "token", "send pusher:subscribe user.u.adherence",
                "send pusher:subscribe user.u.reminders",
                "send pusher:subscribe user.u.medications",
            ])
        let sent = desk.tell { $0.token(.success("T"), serial: $0.session.serial, random: 0, &$1) }
        #expect(sent == ["send sync:auth T", "wait signIn 15000"])
        #expect(desk.hear(Desk.signedIn) == ["connected", "send sync:backoff "])
        let joined =
            #"{"event": "pusher_internal:subscription_succeeded", "channel": "user.u.reminders", "data": "{}"}"#
        #expect(desk.hear(joined) == ["fetch reminders 1"])
    }

    @Test func aReturnResumesInOneMessage() {
        var desk = desk(stored())
        desk.open()
        #expect(desk.log.contains("send sync:resume user.u.adherence@7 user.u.medications@7 user.u.reminders@7"))
        let resumed =
            #"{"event": "sync:resumed", "data": {"channels": {"user.u.adherence": {"epoch": "e", "offset": 8, "recovered": true, "replayed": 1}, "user.u.reminders": {"recovered": false, "reason": "position_expired"}, "user.u.medications": {"recovered": false, "reason": "store_unavailable"}}}}"#
        #expect(desk.hear(resumed) == ["fetch reminders 1", "wait stream(CarillonClient.Topic.medications) 1000"])
        let event = #"{"event": "x", "channel": "user.u.adherence", "data": "{\"_sync\": {\"o\": 8}}"}"#
        _ = desk.hear(event)
        #expect(desk.storage.mirror.positions["user.u.adherence"]?.offset == 8)
    }

    @Test func waitsGrowAndTheirBoundIsRandom() {
        var desk = desk()
        desk.open()
        func lost(_ code: Int, _ random: Double) -> String? {
            desk.tell { $0.lost(code: code, reason: "", random: random, &$1) }.first { $0.hasPrefix("wait reconnect") }
        }
        #expect(lost(1006, 0.5) == "wait reconnect 500")
        _ = desk.tell { [storage = desk.storage] in $0.timer(.reconnect, storage, random: 0, &$1) }
        #expect(lost(1006, 0.5) == "wait reconnect 1000")
        _ = desk.tell { [storage = desk.storage] in $0.timer(.reconnect, storage, random: 0, &$1) }
        #expect(lost(4200, 0.25) == "wait reconnect 1000")
        // The network is back: at once.
        #expect(desk.tell { $0.wake(&$1) } == ["connect", "connecting"])
        desk.open()
        _ = desk.hear(#"{"event": "pusher:connection_established", "data": "{}"}"#)
    }

    /// The worst order: the signature comes when the connection is another one, or nobody wants the channel any more.
    @Test func aSignatureIsForItsRequestAlone() {
        var desk = desk(stored())
        desk.machine = ClientMachine(user: "u", isAuthorizing: true)
        func established(_ socket: String) -> [String] {
            desk.hear(#"{"event": "pusher:connection_established", "data": "{\"socket_id\": \"\#(socket)\"}"}"#)
        }
        func authorized(_ serial: Int) -> [String] {
            let auth = CarillonChannelAuth(auth: "key:1")
            return desk.tell { $0.authorized("private-a", serial: serial, .success(auth), &$1) }
        }
        func failed(_ channel: String, _ serial: Int) -> [String] {
            desk.tell { $0.authorized(channel, serial: serial, .failure(CarillonError.http(403)), &$1) }
        }
        #expect(desk.tell { $0.subscribe("private-a", &$1) } == [])
        _ = desk.tell { $0.start(&$1) }
        #expect(established("1.1").contains("authorize private-a 1.1 #1"))
        _ = desk.tell { $0.lost(code: 4200, reason: "", random: 0, &$1) }
        #expect(authorized(1) == [])
        _ = desk.tell { [storage = desk.storage] in $0.timer(.reconnect, storage, random: 0, &$1) }
        #expect(established("1.2").contains("authorize private-a 1.2 #2"))
        #expect(authorized(1) == [])
        #expect(authorized(2) == ["send pusher:subscribe private-a"])
        #expect(authorized(2) == [])
        _ = desk.tell { $0.unsubscribe("private-a", &$1) }
        #expect(desk.tell { $0.subscribe("private-a", &$1) } == ["authorize private-a 1.2 #3"])
        _ = desk.tell { $0.unsubscribe("private-a", &$1) }
        #expect(authorized(3) == [])
        // Left and joined again on one socket: the old request fails, and the new one's signature counts.
        #expect(desk.tell { $0.subscribe("private-a", &$1) } == ["authorize private-a 1.2 #4"])
        #expect(failed("private-a", 3) == [])
        #expect(authorized(4) == ["send pusher:subscribe private-a"])
        // Public ones are joined at once, and so are all where the app has no authorizer.
        #expect(desk.tell { $0.subscribe("b", &$1) } == ["send pusher:subscribe b"])
        #expect(desk.tell { $0.subscribe("presence-c", &$1) } == ["authorize presence-c 1.2 #5"])
        #expect(failed("presence-c", 5) == ["message presence-c pusher:subscription_error"])
    }

    @Test func closeCodesSayWhenToComeBack() {
        var once = desk()
        once.open()
        #expect(once.tell { $0.lost(code: 4200, reason: "", random: 0.9, &$1) }.contains("wait reconnect 0"))
        var told = desk()
        told.open()
        _ = told.hear(#"{"event": "sync:backoff", "data": "{\"minMs\": 2000, \"maxMs\": 6000}"}"#)
        #expect(told.tell { $0.lost(code: 1001, reason: "", random: 0.5, &$1) }.contains("wait reconnect 4000"))
        var away = desk()
        away.open()
        let said = away.tell { $0.lost(code: 4009, reason: "terminated", random: 0, &$1) }
        #expect(said == ["disconnect", "problem refused(code: 4009, reason: \"terminated\")", "refused"])
        #expect(away.tell { $0.wake(&$1) } == [])
    }

    @Test func aSilentHubIsAskedAndThenLeft() {
        var desk = desk()
        desk.open()
        let storage = desk.storage
        #expect(desk.tell { $0.timer(.quiet, storage, random: 0, &$1) } == ["send pusher:ping "])
        _ = desk.hear(#"{"event": "pusher:pong", "data": "{}"}"#)
        #expect(desk.tell { $0.timer(.quiet, storage, random: 0, &$1) } == ["send pusher:ping "])
        #expect(desk.tell { $0.timer(.quiet, storage, random: 0, &$1) }.contains("disconnect"))
        #expect(desk.hear(#"{"event": "pusher:ping", "data": "{}"}"#) == [])
    }

    // MARK: The session

    /// What would be sent would be done in another account, and be gone here.
    @Test(arguments: [#"{\"userId\": \"v\"}"#, #"{\"userId\": \"U\"}"#, #"{\"userId\": \"u \"}"#, "{}"])
    func aLineOfAnotherUserIsLeft(data: String) {
        var mirror = stored()
        mirror.append(QueuedAction(key: "k1", type: "x", payload: .object([]), clientTime: "", zone: "UTC"))
        var desk = desk(mirror)
        let other = #"{"event": "sync:auth_ok", "data": "\#(data)"}"#
        let established = #"{"event": "pusher:connection_established", "data": "{}"}"#
        for round in 0..<2 {
            if round == 0 {
                _ = desk.tell { $0.start(&$1) }
            } else {
                _ = desk.tell { [storage = desk.storage] in $0.timer(.reconnect, storage, random: 0, &$1) }
            }
            _ = desk.hear(established)
            _ = desk.tell { $0.token(.success("T"), serial: $0.session.serial, random: 0.5, &$1) }
            let said = desk.hear(other, #"{"event": "sync:result", "data": {"key": "k1", "status": "applied"}}"#)
            #expect(said.first?.hasPrefix("problem wrongUser") == true)
            // Pauses grow.
            #expect(said.dropFirst() == ["disconnect", "wait reconnect \(500 << round)", "offline"])
        }
        #expect(!desk.log.contains { $0.contains("sync:action") || $0.contains("sync:resume") })
        #expect(desk.storage.mirror.row(key: "k1")?.state == .queued)
        _ = desk.tell { [storage = desk.storage] in $0.timer(.reconnect, storage, random: 0, &$1) }
        _ = desk.hear(established)
        _ = desk.tell { $0.token(.success("T"), serial: $0.session.serial, random: 0.5, &$1) }
        #expect(desk.hear(Desk.signedIn).contains("send sync:action k1 #1"))
    }

    /// Before the token expires the app is asked for another one. Until then the line stays the user's.
    @Test func aWrongTokenAtARefreshGoesNowhere() {
        var desk = desk(stored())
        desk.open()
        #expect(desk.hear(#"{"event": "sync:auth_expiring", "data": "{}"}"#) == ["token"])
        let serial = desk.machine.session.serial
        let said = desk.tell { $0.token(.failure(.wrongUser("v")), serial: serial, random: 0, &$1) }
        #expect(said == ["problem wrongUser(\"v\")", "wait signIn 500"] && desk.machine.session.isReady)
    }

    @Test func aRefusedTokenIsAskedForAgain() {
        var desk = desk()
        _ = desk.tell { $0.start(&$1) }
        _ = desk.hear(#"{"event": "pusher:connection_established", "data": "{}"}"#)
        let old = desk.machine.session.serial
        _ = desk.tell { $0.token(.success("T"), serial: old, random: 0, &$1) }
        let refused = desk.hear(#"{"event": "pusher:error", "data": {"message": "expired", "code": null}}"#)
        #expect(refused == ["problem unauthorized(\"expired\")", "wait signIn 1000"])
        let storage = desk.storage
        #expect(desk.tell { $0.timer(.signIn, storage, random: 0, &$1) } == ["token"])
        let none = desk.tell { $0.token(.failure(.noToken), serial: old, random: 0, &$1) }
        #expect(none == ["problem noToken", "wait signIn 500"])
        // A token for a line that is gone comes too late.
        _ = desk.tell { $0.lost(code: 1006, reason: "", random: 0, &$1) }
        #expect(desk.tell { $0.token(.success("T"), serial: old, random: 0, &$1) } == [])
        desk.open()
        #expect(desk.hear(#"{"event": "sync:auth_expiring", "data": "{}"}"#) == ["token"])
    }

    @Test func noAnswerToATokenEndsTheLine() {
        var desk = desk()
        _ = desk.tell { $0.start(&$1) }
        _ = desk.hear(#"{"event": "pusher:connection_established", "data": "{}"}"#)
        _ = desk.tell { $0.token(.success("T"), serial: $0.session.serial, random: 0, &$1) }
        let storage = desk.storage
        #expect(desk.tell { $0.timer(.signIn, storage, random: 0, &$1) }.contains("disconnect"))
    }

    // MARK: Streams

    @Test func aGapIsAskedFor() {
        var desk = desk(stored())
        desk.open()
        _ = desk.hear(
            #"{"event": "sync:resumed", "data": {"channels": {"user.u.adherence": {"offset": 7, "recovered": true}}}}"#)
        let late = #"{"event": "x", "channel": "user.u.adherence", "data": "{\"_sync\": {\"o\": 9}}"}"#
        #expect(desk.hear(late) == ["send sync:resume user.u.adherence@7"])
        #expect(desk.storage.mirror.positions["user.u.adherence"]?.offset == 7)
        // What comes before the answer is not applied twice.
        let next = #"{"event": "x", "channel": "user.u.adherence", "data": "{\"_sync\": {\"o\": 8}}"}"#
        #expect(desk.hear(next, late) == [])
        #expect(desk.storage.mirror.positions["user.u.adherence"]?.offset == 9)
    }

    /// The worst moment: the store is full while events come. Their position is not stored, so they come again.
    @Test func whatIsNotStoredIsAskedForAgain() {
        var desk = desk(stored())
        desk.open()
        _ = desk.hear(
            #"{"event": "sync:resumed", "data": {"channels": {"user.u.adherence": {"offset": 7, "recovered": true}}}}"#)
        desk.storage.failures = [desk.storage.writes + 1]
        let event = #"{"event": "x", "channel": "user.u.adherence", "data": "{\"_sync\": {\"o\": 8}}"}"#
        let failed = desk.hear(event)
        #expect(failed == ["wait stream(CarillonClient.Topic.adherence) 1000", "problem storage(\"full\")"])
        #expect(desk.storage.mirror.positions["user.u.adherence"]?.offset == 7)
        let storage = desk.storage
        // Nobody is told that all is here.
        #expect(!desk.machine.streams[0].isCaughtUp(storage.mirror))
        #expect(
            desk.tell { $0.timer(.stream(.adherence), storage, random: 0, &$1) } == [
                "send sync:resume user.u.adherence@7"
            ])
    }

    @Test func eventsWaitForTheirSnapshot() {
        var desk = desk()
        desk.open()
        _ = desk.hear(
            #"{"event": "pusher_internal:subscription_succeeded", "channel": "user.u.medications", "data": "{}"}"#)
        _ = desk.hear(
            #"{"event": "medication.created", "channel": "user.u.medications", "data": "{\"id\": \"m2\", \"_sync\": {\"o\": 4}}"}"#
        )
        #expect(desk.storage.mirror.all(.medication).isEmpty)
        let body = JSONTree.parsed(#"{"items": [{"id": "m1"}], "stacks": [], "settings": {"timezone": "UTC"}}"#)
        let snapshot = ClientSnapshot(
            part: .list(.medications), body: body, position: StoredPosition(epoch: "e", offset: 3))
        let storage = desk.storage
        _ = desk.tell { $0.fetched(.medications, .success([snapshot]), serial: 99, storage, random: 0, &$1) }
        #expect(storage.mirror.all(.medication).isEmpty)
        let serial = desk.machine.streams[2].serial
        _ = desk.tell { $0.fetched(.medications, .success([snapshot]), serial: serial, storage, random: 0, &$1) }
        #expect(Set(storage.mirror.all(.medication).keys) == ["m1", "m2"])
        #expect(storage.mirror.positions["user.u.medications"]?.offset == 4)
    }

    /// An answer of an old line must not end the wait for that of the new one.
    @Test func whatIsLackingIsFetchedOnEachLine() throws {
        var desk = desk(stored())
        let storage = desk.storage
        let today = try #require(TimeText.day("2025-11-20"))
        let resumed = Topic.allCases.map { #""user.u.\#($0)": {"offset": 7, "recovered": true}"# }.joined(
            separator: ",")
        func open() {
            desk.open()
            _ = desk.hear(#"{"event": "sync:resumed", "data": {"channels": {\#(resumed)}}}"#)
        }
        func complete() -> [String] { desk.tell { $0.complete(storage.mirror, today: today, &$1) } }
        #expect(complete() == [])
        open()
        #expect(complete() == ["fetch adherence 3"])
        #expect(complete() == [])
        _ = desk.tell { $0.lost(code: 1006, reason: "", random: 0, &$1) }
        _ = desk.tell { $0.timer(.reconnect, storage, random: 0, &$1) }
        open()
        #expect(complete() == ["fetch adherence 3"])
        let month = ClientSnapshot(
            part: .month("2025-11"), body: .array([]), position: StoredPosition(epoch: "e", offset: 7))
        _ = desk.tell { $0.fetched(.adherence, .success([month]), serial: -1, storage, random: 0, &$1) }
        #expect(storage.mirror.entity(.loaded, "month:2025-11") == nil && complete() == [])
        _ = desk.tell { $0.fetched(.adherence, .success([month]), serial: -2, storage, random: 0, &$1) }
        #expect(storage.mirror.entity(.loaded, "month:2025-11") != nil)
        // A failure waits.
        #expect(complete() == ["fetch adherence 3"])
        let failed = desk.tell { $0.fetched(.adherence, .failure(.http(503)), serial: -3, storage, random: 0, &$1) }
        #expect(failed == ["problem http(503)", "wait complete 500"] && complete() == [])
        _ = desk.tell { $0.timer(.complete, storage, random: 0, &$1) }
        #expect(complete() == ["fetch adherence 3"])
        // What the hub has not holds up nothing else, and is asked for again on the next connection.
        let day = ClientSnapshot(
            part: .day("2025-11-20"), body: .parsed(#"{"summary": {"date": "2025-11-20"}}"#),
            position: StoredPosition(epoch: "e", offset: 7))
        let parts: [ClientSnapshot] = [day, .absent(.day("2025-11-21"))]
        _ = desk.tell { $0.fetched(.adherence, .success(parts), serial: -4, storage, random: 0, &$1) }
        #expect(storage.mirror.entity(.loaded, "day:2025-11-20") != nil)
        #expect(complete() == ["fetch adherence 1"])
        _ = desk.tell { $0.lost(code: 1006, reason: "", random: 0, &$1) }
        _ = desk.tell { $0.timer(.reconnect, storage, random: 0, &$1) }
        open()
        #expect(complete() == ["fetch adherence 2"])
    }

    @Test func aForbiddenChannelIsLeft() {
        var desk = desk(stored())
        desk.open()
        let said = desk.hear(
            #"{"event": "sync:resumed", "data": {"channels": {"user.u.adherence": {"recovered": false, "reason": "forbidden"}}}}"#
        )
        #expect(said == ["send pusher:unsubscribe user.u.adherence"])
    }

    // MARK: The queue

    private func queued(_ doses: String...) throws -> Desk {
        var mirror = stored()
        for (index, dose) in doses.enumerated() { try mirror.enqueue(.made("k\(index + 1)", of: dose)) }
        _ = mirror.takeChanges()
        var desk = desk(mirror)
        desk.open()
        return desk
    }

    private func pump(_ desk: inout Desk) -> [String] {
        let storage = desk.storage
        return desk.tell { $0.pump(storage, random: 0.5, &$1) }
    }

    @Test func theQueueIsSentWhenTheUserIsSignedIn() throws {
        var desk = try queued("d1", "d2", "d1")
        #expect(desk.log.suffix(3) == ["send sync:action k1 #1", "send sync:action k2 #2", "wait patience 30000"])
        #expect(pump(&desk) == [])
        let answered = desk.hear(#"{"event": "sync:result", "data": {"key": "k1", "status": "applied"}}"#)
        #expect(answered.contains("send sync:action k3 #3"))
    }

    /// No answer came: the same key and number go on the next line.
    @Test func aLostLineRepeatsKeysAndNumbers() throws {
        var desk = try queued("d1", "d2")
        _ = desk.hear(#"{"event": "sync:result", "data": {"key": "k2", "status": "applied"}}"#)
        let storage = desk.storage
        #expect(desk.tell { $0.timer(.patience, storage, random: 0, &$1) }.contains("disconnect"))
        desk.log = []
        _ = desk.tell { $0.timer(.reconnect, storage, random: 0, &$1) }
        desk.open()
        #expect(desk.log.filter { $0.hasPrefix("send sync:action") } == ["send sync:action k1 #1"])
        // An answer of the old line, said twice, counts once.
        _ = desk.hear(#"{"event": "sync:result", "data": {"key": "k2", "status": "rejected"}}"#)
        #expect(storage.mirror.row(key: "k2")?.state == .done)
    }

    @Test func outOfOrderRenumbersAndKeepsKeys() throws {
        var desk = try queued("d1", "d2")
        let first =
            #"{"event": "sync:result", "data": {"key": "k1", "status": "retry", "code": "out_of_order", "expected": 41}}"#
        let second =
            #"{"event": "sync:result", "data": {"key": "k2", "status": "retry", "code": "out_of_order", "expected": 41}}"#
        #expect(desk.hear(first).contains("wait retry 200"))
        #expect(desk.hear(second).filter { $0.hasPrefix("send") } == [])
        let storage = desk.storage
        let again = desk.tell { $0.timer(.retry, storage, random: 0, &$1) }
        #expect(again.prefix(2) == ["send sync:action k1 #41", "send sync:action k2 #42"])
    }

    @Test func aBusyHubIsGivenTime() throws {
        var desk = try queued("d1")
        let busy = desk.hear(
            #"{"event": "sync:result", "data": {"key": "k1", "status": "retry", "code": "busy", "afterMs": 400}}"#)
        #expect(busy == ["wait retry 600"])
        #expect(pump(&desk) == [] && desk.storage.mirror.row(key: "k1")?.retries == 1)
        let storage = desk.storage
        #expect(desk.tell { $0.timer(.retry, storage, random: 0, &$1) }.first == "send sync:action k1 #1")
    }

    /// The worst interleaving: the answer is here and cannot be stored. The action is asked again, with its key.
    @Test func anAnswerThatIsNotStoredIsAskedForAgain() throws {
        var desk = try queued("d1")
        desk.storage.failures = [desk.storage.writes + 1]
        let said = desk.hear(#"{"event": "sync:result", "data": {"key": "k1", "status": "applied"}}"#)
        #expect(said.contains("problem storage(\"full\")") && desk.storage.mirror.row(key: "k1")?.state == .sent)
        let storage = desk.storage
        #expect(desk.tell { $0.timer(.retry, storage, random: 0, &$1) }.first == "send sync:action k1 #1")
    }

    @Test func aFollowerSendsNothing() throws {
        var desk = try queued()
        try desk.storage.write(isFenced: false) { try $0.enqueue(.made("k1")) }
        desk.storage.isLeading = false
        #expect(pump(&desk).contains("problem notLeading"))
        #expect(desk.storage.mirror.row(key: "k1")?.n == nil)
    }

    @Test func garbageIsNothing() {
        var desk = desk(stored())
        desk.open()
        #expect(desk.hear("", "{", "[]", #"{"event": 1}"#, #"{"event": "sync:result", "data": "{"}"#, "\u{0}") == [])
    }

    @Test func ownChannelsAreHeard() {
        var desk = desk()
        desk.open()
        #expect(desk.tell { $0.subscribe("news", &$1) } == ["send pusher:subscribe news"])
        #expect(desk.hear(#"{"event": "hello", "channel": "news", "data": "1"}"#) == ["message news hello"])
        #expect(desk.tell { $0.unsubscribe("news", &$1) } == ["send pusher:unsubscribe news"])
        _ = desk.tell { $0.subscribe("user.u.adherence", &$1) }
        #expect(desk.tell { $0.unsubscribe("user.u.adherence", &$1) } == [])
    }
}
