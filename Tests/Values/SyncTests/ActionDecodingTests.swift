import JSON
import Sync
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ActionDecodingTests {
    private func read(
        _ text: String, plain: ActionShape = .envelope, keyField: String? = nil
    ) throws(ActionError) -> (envelope: ActionEnvelope, wording: ActionWording) {
        try ActionEnvelope.decode(Array(text.utf8), plain: plain, keyField: keyField)
    }

    /// The message about a wrong field.
    private func message(_ text: String, plain: ActionShape = .envelope) -> String? {
        do throws(ActionError) {
            _ = try read(text, plain: plain)
            return nil
        } catch {
            guard case .invalid(_, _, let message, _) = error else { return nil }
            return message.description
        }
    }

    /// The failure in words: `keyless: …`, or the key and the path in the client's terms.
    private func failure(_ text: String, plain: ActionShape = .envelope, keyField: String? = nil) -> String? {
        do throws(ActionError) {
            _ = try read(text, plain: plain, keyField: keyField)
            return nil
        } catch {
            switch error {
            case .keyless(let message): return "keyless: \(message)"
            case .invalid(let key, let path, _, let wording):
                return "\(key) \(wording.path(ofField: path.description))"
            }
        }
    }

    private func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

    @Test func readsAnEnvelope() throws {
        let envelope = try ActionEnvelope.decode(
            Array(
                #"""
                {"v":1, "key":"k\u0031", "deviceId":"d", "n":57, "type":"markTaken", "payload":{"a": [1, "\u0000"]},
                 "base":{"rev":3}, "clientTime":"x", "tz":"Europe/Berlin", "more":{"key":"other"}}
                """#.utf8))
        #expect(envelope.key == "k1")
        #expect(envelope.deviceID == "d")
        #expect(envelope.number == 57)
        #expect(envelope.type == "markTaken")
        #expect(text(envelope.payload) == #"{"a": [1, "\u0000"]}"#)
        #expect(text(envelope.base) == #"{"rev":3}"#)
        #expect(text(envelope.clientTime) == #""x""#)
        #expect(envelope.timeZone == "Europe/Berlin")
    }

    @Test func nullIsAbsent() throws {
        let envelope = try read(
            #"{"v":null,"key":"k","deviceId":null,"n":null,"type":"t","payload":{},"base":null,"clientTime":null,"tz":null}"#
        ).envelope
        #expect(envelope.deviceID == nil && envelope.number == nil && envelope.base == nil)
        #expect(envelope.clientTime == nil && envelope.timeZone == nil)
    }

    /// Fields that the database checks pass unchanged.
    @Test(arguments: [#"{"rev":-1}"#, #"{"rev":"x"}"#, "{}", #"{"d1":{"rev":1},"d2":{"rev":2}}"#])
    func basesAreTheDatabasesToJudge(_ base: String) throws {
        let envelope = try read(#"{"key":"k","type":"nonsense","payload":{},"base":\#(base),"clientTime":[1]}"#)
            .envelope
        #expect(text(envelope.base) == base)
        #expect(text(envelope.clientTime) == "[1]")
        #expect(envelope.type == "nonsense")
    }

    @Test(arguments: [
        ("", "keyless: The action is not valid JSON"), ("{", "keyless: The action is not valid JSON"),
        ("[]", "keyless: An action is a JSON object"), (#""k""#, "keyless: An action is a JSON object"),
        ("{}", "keyless: An action needs a key"), (#"{"key":null}"#, "keyless: An action needs a key"),
        (#"{"idempotencyKey":"k","type":"t","payload":{}}"#, "keyless: An action needs a key"),
        (#"{"key":7}"#, "keyless: An action's key is a string of 1 to 200 bytes"),
        (#"{"key":""}"#, "keyless: An action's key is a string of 1 to 200 bytes"),
        (#"{"key":"a\u0000b"}"#, "keyless: An action's key is a string of 1 to 200 bytes"),
        (#"{"key":"a","key":"b"}"#, "keyless: A member of the action is given twice"),
        (#"{"key":"a","type":"t","type":"t"}"#, "keyless: A member of the action is given twice"),
        (#"{"key":"a","n":null,"\u006e":1}"#, "keyless: A member of the action is given twice"),
        (#"{"key":"\ud800"}"#, "keyless: The action is not valid JSON"),
    ])
    func withoutAKeyThereIsNoAnswer(_ text: String, _ expected: String) { #expect(failure(text) == expected) }

    @Test(arguments: [
        (#""v":2"#, "v"), (#""v":"1""#, "v"), (#""v":1.0"#, "v"),
        (#""deviceId":7"#, "deviceId"), (#""deviceId":"""#, "deviceId"), (#""deviceId":"a\u0000""#, "deviceId"),
        (#""n":1"#, "deviceId"),
        (#""deviceId":"d","n":0"#, "n"), (#""deviceId":"d","n":-1"#, "n"), (#""deviceId":"d","n":"1""#, "n"),
        (#""deviceId":"d","n":1.5"#, "n"), (#""deviceId":"d","n":9007199254740993"#, "n"),
        (#""deviceId":"d","n":99999999999999999999"#, "n"), (#""deviceId":"d","n":true"#, "n"),
        (#""type":7"#, "type"), (#""type":null"#, "type"), (#""type":"a\u0000""#, "type"),
        (#""payload":null"#, "payload"), (#""payload":[]"#, "payload"), (#""payload":"{}""#, "payload"),
        (#""base":[]"#, "base"), (#""base":3"#, "base"), (#""tz":3"#, "tz"), (#""tz":"""#, "tz"),
        (#""tz":"a\u0000""#, "tz"),
    ])
    func fieldsAreNamed(_ members: String, _ path: String) {
        var rest = #""key":"k""#
        if !members.contains("type") { rest += #","type":"t""# }
        if !members.contains("payload") { rest += #","payload":{}"# }
        #expect(failure("{\(members),\(rest)}") == "k \(path)")
        #expect(failure("{\(rest),\(members)}") == "k \(path)")
    }

    @Test func theFirstWrongFieldIsNamed() {
        #expect(failure(#"{"key":"k","tz":1,"base":1,"payload":1,"type":1,"n":0,"deviceId":1,"v":0}"#) == "k v")
        #expect(failure(#"{"key":"k","tz":1,"base":1,"payload":1}"#) == "k type")
        #expect(failure(#"{"key":"k"}"#) == "k type")
        #expect(failure(#"{"key":"k","type":"t"}"#) == "k payload")
    }

    @Test func whatIsNotThereIsRequired() {
        let tooLong = "must be a string of at most 64 bytes"
        #expect(message(#"{"idempotencyKey":"k","payload":{}}"#, plain: .plain) == "is required")
        #expect(message(#"{"idempotencyKey":"k","actionType":null,"payload":{}}"#, plain: .plain) == "is required")
        #expect(message(#"{"idempotencyKey":"k","actionType":7,"payload":{}}"#, plain: .plain) == tooLong)
        #expect(message(#"{"key":"k","payload":{}}"#) == "is required")
        #expect(message(#"{"key":"k","type":7,"payload":{}}"#) == tooLong)
    }

    /// Each shape has its own name for the key.
    @Test func theKeyIsCalledWhatTheClientCallsIt() {
        let plain = "keyless: An action needs a key: idempotencyKey, or the header Idempotency-Key"
        #expect(failure(#"{"actionType":"skip","payload":{}}"#, plain: .plain) == plain)
        #expect(failure(#"{"occurrenceIds":[]}"#, plain: .plainBulk) == plain)
        #expect(failure(#"{"type":"skip","payload":{}}"#, plain: .plain) == "keyless: An action needs a key")
    }

    @Test func limitsAtTheBoundAndOnePast() throws {
        func envelope(
            key: String = "k", device: String = "d", n: Int64 = 1, type: String = "t", zone: String = "z"
        )
            -> String
        {
            #"{"key":"\#(key)","deviceId":"\#(device)","n":\#(n),"type":"\#(type)","payload":{},"tz":"\#(zone)"}"#
        }
        func bytes(_ count: Int) -> String { String(repeating: "é", count: count / 2) }
        #expect(failure(envelope(key: bytes(200))) == nil)
        #expect(failure(envelope(key: bytes(200) + "x"))?.hasPrefix("keyless") == true)
        #expect(failure(envelope(device: bytes(200))) == nil)
        #expect(failure(envelope(device: bytes(200) + "x")) == "k deviceId")
        #expect(failure(envelope(type: bytes(64))) == nil)
        #expect(failure(envelope(type: "")) == nil, "the database knows no such type, and says so")
        #expect(failure(envelope(type: bytes(64) + "x")) == "k type")
        #expect(failure(envelope(zone: bytes(64))) == nil)
        #expect(failure(envelope(zone: bytes(64) + "x")) == "k tz")
        #expect(failure(envelope(n: 1 << 53)) == nil)
        #expect(failure(envelope(n: 1 << 53 + 1)) == "k n")
        func nested(_ levels: Int) -> String {
            let inside = String(repeating: "[", count: levels - 2) + String(repeating: "]", count: levels - 2)
            return #"{"key":"k","type":"t","payload":{"a":\#(inside)}}"#
        }
        #expect(failure(nested(ActionLimits.depth)) == nil)
        #expect(failure(nested(ActionLimits.depth + 1)) == "keyless: The action is not valid JSON")
    }

    // MARK: HTTP

    @Test func plainActions() throws {
        let (action, wording) = try read(
            #"""
            {"idempotencyKey":"k","actionType":"skip","payload":{"occurrenceId":"o"},"rev":4,"timestamp":17,"v":9,
             "deviceId":"d","n":2,"tz":"UTC"}
            """#, plain: .plain)
        #expect(wording.shape == .plain)
        #expect(action.key == "k" && action.type == "skip" && action.deviceID == "d" && action.number == 2)
        #expect(text(action.payload) == #"{"occurrenceId":"o"}"#)
        #expect(text(action.base) == #"{"rev":4}"#)
        #expect(text(action.clientTime) == "17")
        let both = try read(
            #"{"idempotencyKey":"k","actionType":"skip","payload":{},"rev":4,"base":{"rev":5},"timestamp":1,"clientTime":2}"#,
            plain: .plain
        ).envelope
        #expect(text(both.base) == #"{"rev":5}"#)
        #expect(text(both.clientTime) == "2")
        #expect(failure(#"{"idempotencyKey":"k","payload":{}}"#, plain: .plain) == "k actionType")
        #expect(failure(#"{"idempotencyKey":"k","actionType":"skip"}"#, plain: .plain) == "k payload")
        #expect(failure(#"{"actionType":"skip","payload":{}}"#, plain: .plain)?.hasPrefix("keyless") == true)
    }

    /// An entry of a client's queue, as stored: `id` is the key, `timestamp` the time.
    @Test(arguments: ["17", #""2025-11-14T08:00:00-05:00""#])
    func queuedActions(_ timestamp: String) throws {
        let queued =
            #"{"id":"q","type":"makeUp","payload":{"occurrenceId":"o"},"timestamp":\#(timestamp),"retries":3,"key":null}"#
        let (action, wording) = try read(queued, plain: .plain)
        #expect(wording.shape == .plain && action.key == "q" && action.type == "makeUp")
        #expect(text(action.payload) == #"{"occurrenceId":"o"}"# && text(action.clientTime) == timestamp)
        #expect(wording.path(ofField: "type") == "type" && wording.path(ofField: "clientTime") == "timestamp")
        #expect(wording.path(ofField: "payload.at") == "payload.at")
        #expect(try read(queued, plain: .plain, keyField: "f").envelope.key == "f")
        let own = queued.replacing("{\"id\"", with: "{\"idempotencyKey\":\"own\",\"id\"")
        #expect(try read(own, plain: .plain, keyField: "f").envelope.key == "own")
        #expect(try read(own, plain: .plain).envelope.type == "makeUp")
        // On the bulk's path an entry keeps its type.
        #expect(try read(queued, plain: .plainBulk).envelope.type == "makeUp")
        let (bulk, words) = try read(
            #"{"id":"q","type":"bulkMarkAll","payload":{"occurrenceIds":["a"]},"timestamp":1}"#, plain: .plainBulk)
        #expect(bulk.type == "bulkMarkAll" && bulk.key == "q" && words.shape == .plainBulk)
        #expect(text(bulk.payload) == #"{"occurrenceIds":["a"]}"#)
        #expect(try read(#"{"id":"q","occurrenceIds":["a"]}"#, plain: .plainBulk).envelope.key == "q")
    }

    @Test func faultyQueuedActions() {
        #expect(failure(#"{"id":7,"type":"skip","payload":{}}"#, plain: .plain)?.hasPrefix("keyless") == true)
        #expect(failure(#"{"id":"","type":"skip","payload":{}}"#, plain: .plain)?.hasPrefix("keyless") == true)
        #expect(
            failure(#"{"id":"q","id":"r","type":"skip","payload":{}}"#, plain: .plain)?.hasPrefix("keyless") == true)
        #expect(failure(#"{"id":"q","type":"skip"}"#, plain: .plain) == "q payload")
        #expect(failure(#"{"id":"q","type":7,"payload":{}}"#, plain: .plain) == "q type")
        #expect(failure(#"{"id":"q","payload":{}}"#, plain: .plain) == "q actionType")
        #expect(failure(#"{"id":"q","type":"skip","payload":{}}"#) == "keyless: An action needs a key", "on a socket")
        #expect(failure(#"{"id":"q"}"#, plain: .whole(type: "t"))?.hasPrefix("keyless") == true, "there it is data")
    }

    @Test func plainBulkActions() throws {
        let (ids, wording) = try read(
            #"{"idempotencyKey":"k","occurrenceIds":["a", "b"],"takenAt":"t","includeFuture":null,"other":1}"#,
            plain: .plainBulk)
        #expect(wording.shape == .plainBulk)
        #expect(ids.type == "bulkMarkAll")
        #expect(text(ids.payload) == #"{"occurrenceIds":["a", "b"],"takenAt":"t"}"#)
        let criteria = try read(#"{"idempotencyKey":"k","criteria":{},"includeFuture":true}"#, plain: .plainBulk)
            .envelope
        #expect(text(criteria.payload) == #"{"criteria":{},"includeFuture":true}"#)
        let queued = try read(
            #"{"idempotencyKey":"k","actionType":"bulkMarkAll","payload":{"occurrenceIds":["a"]}}"#, plain: .plainBulk)
        #expect(queued.envelope.type == "bulkMarkAll")
        #expect(text(queued.envelope.payload) == #"{"occurrenceIds":["a"]}"#)
        // The database may reject neither.
        #expect(text(try read(#"{"idempotencyKey":"k"}"#, plain: .plainBulk).envelope.payload) == "{}")
    }

    /// Faults found by the database are reported with the client's field names.
    @Test(arguments: [
        ("payload.takenAt", "payload.takenAt", "takenAt"),
        ("payload.criteria.date", "payload.criteria.date", "criteria.date"),
        ("payload.occurrenceIds[3]", "payload.occurrenceIds[3]", "occurrenceIds[3]"), ("payload", "payload", "payload"),
        ("type", "actionType", "type"), ("base", "rev", "rev"), ("clientTime", "timestamp", "timestamp"),
        ("deviceId", "deviceId", "deviceId"), ("n", "n", "n"), ("tz", "tz", "tz"),
    ])
    func fieldsAreCalledWhatTheClientCallsThem(_ field: String, _ plain: String, _ bulk: String) throws {
        let words = #""idempotencyKey":"k","rev":1,"timestamp":2"#
        let action = try read(#"{\#(words),"actionType":"skip","payload":{}}"#, plain: .plain).wording
        #expect(action.path(ofField: field) == plain)
        #expect(try read(#"{\#(words),"criteria":{}}"#, plain: .plainBulk).wording.path(ofField: field) == bulk)
        let envelope = #"{"key":"k","type":"t","payload":{},"rev":1,"timestamp":2}"#
        for shape in [.envelope, .plain, .plainBulk] as [ActionShape] {
            #expect(try read(envelope, plain: shape).wording.path(ofField: field) == field)
        }
        // Fields that such a client wrote as in an envelope keep their names.
        let queued = #"{"idempotencyKey":"k","base":{},"clientTime":1,"payload":{},"rev":1,"timestamp":2}"#
        #expect(try read(queued, plain: .plainBulk).wording.path(ofField: field) == field)
    }

    @Test func theKeyMayStandInTheField() throws {
        let plain = #"{"actionType":"skip","payload":{}}"#
        #expect(try read(plain, plain: .plain, keyField: "f").envelope.key == "f")
        #expect(try read(plain, plain: .plain, keyField: "f").wording.shape == .plain)
        let own = #"{"idempotencyKey":"own","actionType":"skip","payload":{}}"#
        #expect(try read(own, plain: .plain, keyField: "f").envelope.key == "own")
        let envelope = try read(#"{"type":"skip","payload":{}}"#, plain: .plain, keyField: "f")
        #expect(envelope.envelope.key == "f" && envelope.wording.shape == .envelope)
        #expect(try read(#"{"occurrenceIds":[]}"#, plain: .plainBulk, keyField: "f").envelope.key == "f")
        #expect(failure(plain, plain: .plain, keyField: "")?.hasPrefix("keyless") == true)
        #expect(
            failure(plain, plain: .plain, keyField: String(repeating: "k", count: 201))?.hasPrefix("keyless") == true)
    }

    @Test func whatAnEnvelopeDoesNotKnowMayComeTwice() {
        #expect(failure(#"{"key":"k","type":"t","payload":{},"takenAt":1,"takenAt":2}"#) == nil)
        #expect(
            failure(#"{"idempotencyKey":"k","occurrenceIds":[],"takenAt":1,"takenAt":2}"#, plain: .plainBulk)
                == "keyless: A member of the action is given twice")
    }

    @Test func anEnvelopeIsOneOnBothRoutes() throws {
        let text = #"{"key":"k","type":"skip","payload":{"occurrenceId":"o"},"actionType":"x","idempotencyKey":"y"}"#
        for plain in [ActionShape.plain, .plainBulk] {
            let (action, wording) = try read(text, plain: plain)
            #expect(wording.shape == .envelope && action.key == "k" && action.type == "skip")
        }
    }

    @Test(arguments: [
        ("", "{}"), ("{}", "{}"), (#"{"a":1}"#, #"{"a":1}"#),
        (#" { "a" : [1, 2] , "b":"\u0041" } "#, #"{"a":[1, 2],"b":"\u0041"}"#),
        // An envelope's members are ordinary members here.
        (#"{"key":"x","type":"y","payload":{"v":1},"v":2}"#, #"{"key":"x","type":"y","payload":{"v":1},"v":2}"#),
        (#"{"type":1,"type":2,"takenAt":3}"#, #"{"type":1,"type":2,"takenAt":3}"#),
        (
            #"{"idempotencyKey":"own","deviceId":"d","n":3,"rev":4,"timestamp":5,"tz":"UTC","time":"08:00"}"#,
            #"{"time":"08:00"}"#
        ),
        (#"{"\u0072ev":4,"a":null}"#, #"{"a":null}"#),
    ])
    func aWholeBodyIsThePayload(_ body: String, _ payload: String) throws {
        let (action, wording) = try read(body, plain: .whole(type: "createReminder"), keyField: "f")
        #expect(String(decoding: action.payload, as: UTF8.self) == payload)
        #expect(action.type == "createReminder" && wording.shape == .whole(type: "createReminder"))
        #expect(action.key == (body.contains("own") ? "own" : "f"))
        #expect(wording.path(ofField: "payload.time") == "time" && wording.path(ofField: "payload") == "payload")
    }

    @Test func whatTheRequestNamesIsInAWholePayload() throws {
        let (action, wording) = try ActionEnvelope.decode(
            Array(#"{"id":"x","\u0069d":"y","rev":7,"timestamp":"t"}"#.utf8), plain: .whole(type: "t"), keyField: "k",
            beside: [("id", Array(#""r\"1""#.utf8)), ("n", Array("5".utf8))])
        #expect(String(decoding: action.payload, as: UTF8.self) == #"{"id":"r\"1","n":5}"#)
        #expect(action.base.map { String(decoding: $0, as: UTF8.self) } == #"{"rev":7}"#)
        #expect(wording.path(ofField: "base") == "rev" && wording.path(ofField: "clientTime") == "timestamp")
        // For one occurrence `rev` stays: it is the rule's.
        let occurrence = #"{"rev":7,"applyTo":"occurrence"}"#
        let (one, _) = try read(occurrence, plain: .whole(type: "updateReminder"), keyField: "k")
        #expect(String(decoding: one.payload, as: UTF8.self) == occurrence && one.base == nil)
        // For the rule it is the base, as it always was: a repeat at a newer hub has the same digest.
        let (rule, _) = try read(#"{"rev":7,"time":"08:00"}"#, plain: .whole(type: "updateReminder"), keyField: "k")
        #expect(String(decoding: rule.payload, as: UTF8.self) == #"{"time":"08:00"}"#)
        #expect(rule.base.map { String(decoding: $0, as: UTF8.self) } == #"{"rev":7}"#)
        #expect(failure("[]", plain: .whole(type: "t"), keyField: "k") == "keyless: An action is a JSON object")
        #expect(failure(#"{"rev":1,"rev":2}"#, plain: .whole(type: "t"), keyField: "k")?.hasPrefix("keyless") == true)
        #expect(failure("{}", plain: .whole(type: "t"))?.hasPrefix("keyless") == true, "a key is the route's to make")
    }

    /// Any bytes give an error or an action within its limits, whose parts are JSON of the right kinds.
    @Test func survivesMutation() throws {
        let corpus = try Corpus.load("action").map(\.bytes)
        for seed in 0..<8000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = corpus[Int(seed) % corpus.count]
            let bytes = Mutation.apply(to: base, other: corpus.randomElement(using: &random) ?? [], using: &random)
            for shape in [.envelope, .plain, .plainBulk, .whole(type: "t")] as [ActionShape] {
                guard let action = try? ActionEnvelope.decode(bytes, plain: shape, keyField: nil).envelope else {
                    continue
                }
                #expect((1...200).contains(action.key.utf8.count) && !action.key.utf8.contains(0), "seed \(seed)")
                #expect(action.number.map { $0 >= 1 && action.deviceID != nil } ?? true, "seed \(seed)")
                #expect(kind(action.payload) == .object, "seed \(seed)")
                #expect(action.base.map { kind($0) == .object } ?? true, "seed \(seed)")
                #expect(action.clientTime.map { kind($0) != nil } ?? true, "seed \(seed)")
            }
        }
    }

    private func kind(_ bytes: [UInt8]) -> JSONKind? { withBytes(bytes) { try? JSONValue.parse($0).kind } }
}

@Suite(.timeLimit(.minutes(15))) struct ActionAnswerTests {
    @Test func retriesSayWhenAndWhy() {
        let cases: [(RetryReason, String)] = [
            (.rateLimited, "busy"), (.busy, "busy"), (.unavailable, "unavailable"), (.outOfOrder, "out_of_order"),
        ]
        for (reason, code) in cases {
            let answer = ActionAnswer.retry(key: "a\"b", reason, after: .milliseconds(250), message: "m")
            #expect(answer.status == .retry && answer.retry == reason && answer.retryAfter == .milliseconds(250))
            #expect(
                answer.json.string
                    == #"{"key":"a\"b","status":"retry","code":"\#(code)","afterMs":250,"message":"m"}"#)
        }
        for (wait, milliseconds) in [
            (Duration.zero, 0), (.nanoseconds(1), 1), (.milliseconds(-5), 0), (.microseconds(1_500), 2),
            (.seconds(90), 90_000),
        ] {
            let answer = ActionAnswer.retry(key: "k", .busy, after: wait, message: "m")
            #expect(answer.json.string.contains("\"afterMs\":\(milliseconds),"))
        }
    }

    @Test func rejectionsNameTheField() {
        let answer = ActionAnswer.invalid(key: "k", path: "payload", message: "must be an object")
        #expect(answer.status == .rejected && answer.retry == nil)
        #expect(
            answer.json.string
                == #"{"key":"k","status":"rejected","code":"invalid","path":"payload","#
                + #""message":"must be an object","numberUsed":false}"#)
        #expect(
            ActionAnswer.invalid(key: "k", path: nil, message: "m").json.string
                == #"{"key":"k","status":"rejected","code":"invalid","message":"m","numberUsed":false}"#)
    }
}
