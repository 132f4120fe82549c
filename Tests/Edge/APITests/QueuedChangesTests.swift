import Bytes
import Store
import Sync
import Synchronization
import Testing

@testable import API

@Suite struct QueuedChangesTests {
    /// The actions of a queue, in the order in which they are carried out; each is answered at once.
    private func envelopes(_ body: String, most: Int = 3) throws -> [ActionEnvelope] {
        let (found, refused) = try carriedOut(body, most: most)
        #expect(refused.isEmpty)
        return found
    }

    /// The actions of a queue, and the answers to changes that are none.
    private func carriedOut(_ body: String, most: Int = 3) throws -> ([ActionEnvelope], [String]) {
        let found = Mutex<[ActionEnvelope]>([])
        let refused = Mutex<[String]>([])
        let batch = try ActionBatch(changes: Array(body.utf8), most: most)
        batch.carryOut { envelopes, answer in
            found.withLock { $0 = envelopes }
            answer(envelopes.map { _ in ActionAnswer(status: .applied, json: .copy("{}")) })
        } done: { answers in
            let texts = answers.filter { $0.status == .rejected }.map {
                $0.json.withUnsafeBytes { text(Array($0)) ?? "" }
            }
            refused.withLock { $0 = texts }
            #expect(answers.count == found.withLock { $0.count } + texts.count)
        }
        return (found.withLock { $0 }, refused.withLock { $0 })
    }

    /// What cannot be read, and stands behind an action that is to be sent again, is sent again with it.
    @Test func whatStandsBehindARetryIsOneToo() throws {
        let told = Mutex<[ActionAnswer]>([])
        let body = #"{"changes":[{"op":"fly"},{"op":"create"},{"op":"create"},{"op":"fly"}]}"#
        try ActionBatch(changes: Array(body.utf8), most: 4).carryOut { envelopes, answer in
            let busy = ActionAnswer.retry(key: envelopes[1].key, .busy, after: .seconds(2), message: "wait")
            answer([ActionAnswer(status: .applied, json: .copy("{}")), busy])
        } done: { answers in
            told.withLock { $0 = answers }
        }
        let answers = told.withLock { $0 }
        #expect(answers.map(\.status) == [.rejected, .applied, .retry, .retry])
        #expect(answers.last?.retryAfter == .seconds(2))
    }

    private func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

    @Test(arguments: [
        (
            #"{"op":"create","clientId":"tmp-1","data":{"time":"08:00"}}"#, "createReminder",
            #"{"time":"08:00","clientId":"tmp-1"}"#
        ),
        (#"{"op":"create","id":"r","data":{"id":"tmp-1"}}"#, "createReminder", #"{"id":"tmp-1"}"#),
        (#"{"op":"create"}"#, "createReminder", "{}"),
        (#"{"op":"update","id":"r","payload":{"label":null}}"#, "updateReminder", #"{"label":null,"id":"r"}"#),
        (#"{"op":"update","clientId":"tmp-1","payload":{"id":null}}"#, "updateReminder", #"{"id":null,"id":"tmp-1"}"#),
        (#"{"op":"delete","id":"r","clientId":"tmp-1"}"#, "deleteReminder", #"{"id":"r"}"#),
        (#"{"op":"snooze","id":"o","payload":{"minutes":5}}"#, "snoozeReminder", #"{"minutes":5,"occurrenceId":"o"}"#),
        (#"{"op":"occurrence","id":"o","payload":{}}"#, "setReminderOccurrence", #"{"occurrenceId":"o"}"#),
        (#"{"op":"occurrence","id":"r","payload":{"date":"d"}}"#, "setReminderOccurrence", #"{"date":"d","id":"r"}"#),
        (#"{"op":"resolve","payload":{"of":"k"},"id":"other"}"#, "resolve", #"{"of":"k"}"#),
        (
            #"{"op":"occurrence","id":"r","date":"d","payload":{"enabled":false}}"#, "setReminderOccurrence",
            #"{"enabled":false,"date":"d","id":"r"}"#
        ),
        (
            #"{"op":"occurrence","clientId":"tmp-1","date":"d","data":{"date":null}}"#, "setReminderOccurrence",
            #"{"date":null,"date":"d","id":"tmp-1"}"#
        ),
        (#"{"op":"occurrence","id":"r","occurrenceId":"o"}"#, "setReminderOccurrence", #"{"occurrenceId":"o"}"#),
        (
            #"{"op":"snooze","id":"r","occurrenceId":"o","payload":{"minutes":5}}"#, "snoozeReminder",
            #"{"minutes":5,"occurrenceId":"o"}"#
        ),
        (
            #"{"op":"update","id":"r","date":"d","payload":{"applyTo":"occurrence"}}"#, "updateReminder",
            #"{"applyTo":"occurrence","date":"d","id":"r"}"#
        ),
        (
            #"{"op":"resolve","id":"other","of":"k","choice":"keep_local"}"#, "resolve",
            #"{"of":"k","choice":"keep_local"}"#
        ),
        (#"{"op":"resolve","of":"k","payload":{"of":"own"}}"#, "resolve", #"{"of":"own"}"#),
    ])
    func aChangeIsAnAction(_ change: String, _ type: String, _ payload: String) throws {
        let envelope = try #require(try envelopes(#"{"changes":[\#(change)]}"#).first)
        #expect(envelope.type == type)
        #expect(text(envelope.payload) == payload)
    }

    @Test func aQueueThatIsSentAgainHasTheSameKeys() throws {
        let body = #"""
            {"changes":[{"op":"delete","id":"r","timestamp":1},{"op":"delete","id":"r","timestamp":2},
            {"op":"delete","id":"r","key":"own","base":{"rev":1},"tz":"UTC","n":7,"deviceId":"d"}],"deviceId":"phone"}
            """#
        let (first, second) = (try envelopes(body), try envelopes(body))
        #expect(first.map(\.key) == second.map(\.key) && Set(first.map(\.key)).count == 3)
        #expect(first.map(\.deviceID) == ["phone", "phone", "d"])
        #expect(first.map { text($0.clientTime) } == ["1", "2", nil])
        #expect(first[2].key == "own" && first[2].number == 7 && first[2].timeZone == "UTC")
        #expect(text(first[2].base) == #"{"rev":1}"#)
    }

    @Test func withoutATimestampAChangeMayBeMeantTwice() throws {
        let body = #"{"changes":[{"op":"delete","id":"r"},{"op":"delete","id":"r"}]}"#
        let envelopes = try envelopes(body) + envelopes(body)
        #expect(Set(envelopes.map(\.key)).count == 4)
        #expect(Set(envelopes.map(\.deviceID)).count == 2, "one device for each queue")
        #expect(try self.envelopes(#"{"changes":[]}"#).isEmpty)
    }

    @Test(arguments: [
        #"{"op":"update","data":{"id":"r","time":"09:00","rev":1}}"#, #"{"op":"update","id":"r","base":{"rev":1}}"#,
        #"{"op":"create","data":{"id":"tmp-1"}}"#, #"{"op":"create","clientId":"tmp-1"}"#,
    ])
    func anUndatedChangeOfAKnownRevisionIsKnownByItsQueue(_ change: String) throws {
        let once = try envelopes(#"{"changes":[\#(change)]}"#)
        let longer = try envelopes(#"{"changes":[\#(change),{"op":"delete","id":"r"}]}"#)
        #expect(once.map(\.key) == Array(longer.map(\.key).prefix(1)))
        let twice = try envelopes(#"{"changes":[\#(change),\#(change)]}"#)
        #expect(Set(twice.map(\.key)).count == 2, "in one queue it is meant twice")
        let after = try envelopes(#"{"changes":[{"op":"delete","id":"r"},\#(change)]}"#)
        #expect(after[1].key != once[0].key)
    }

    /// Cancelled, taken back, and cancelled again: the rule's revision does not rise with such decisions.
    @Test(arguments: [
        #"{"op":"occurrence","id":"r","payload":{"date":"2026-11-27","enabled":false,"rev":4}}"#,
        #"{"op":"update","id":"r","payload":{"applyTo":"occurrence","date":"2026-11-27","enabled":false,"rev":4}}"#,
        #"{"op":"snooze","id":"r@2026-11-27","payload":{"minutes":10,"rev":4}}"#,
    ])
    func anUndatedDecisionAboutAnOccurrenceMayBeMeantTwice(_ change: String) throws {
        let body = #"{"changes":[\#(change)]}"#
        let (first, second) = (try envelopes(body), try envelopes(body))
        #expect(first[0].key != second[0].key)
    }

    @Test(arguments: [#"{"op":"delete","id":"r","timestamp":1}"#, #"{"op":"create","data":{"id":"tmp-1"}}"#])
    func aQueueThatIsSentAgainIsOfTheSameDevice(_ change: String) throws {
        let once = try envelopes(#"{"changes":[\#(change)]}"#)
        let longer = try envelopes(#"{"changes":[\#(change),{"op":"delete","id":"r"}]}"#)
        #expect(Set((once + longer).map(\.deviceID)).count == 1)
    }

    @Test(arguments: [
        ("7", ""), ("{}", "op"), (#"{"op":"upsert"}"#, "op"), (#"{"op":7}"#, "op"),
        (#"{"op":"delete","key":""}"#, "key"), (#"{"op":"delete","tz":7}"#, "tz"),
        (#"{"op":"delete","payload":[]}"#, "payload"), (#"{"op":"delete","base":7}"#, "base"),
        (#"{"op":"delete","n":0}"#, "n"),
    ])
    func aChangeThatIsNoneIsRejectedAndTheRestCarriedOut(_ change: String, _ path: String) throws {
        let (found, refused) = try carriedOut(#"{"changes":[{"op":"create"},\#(change),{"op":"delete","id":"r"}]}"#)
        #expect(found.map(\.type) == ["createReminder", "deleteReminder"])
        let answer = try #require(refused.first)
        #expect(refused.count == 1 && answer.contains(#""status":"rejected""#))
        #expect(path.isEmpty || answer.contains(#""path":"\#(path)""#))
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"changes":{}}"#, #"{"changes":[],"changes":[]}"#,
        #"{"changes":[],"deviceId":7}"#,
        #"{"changes":[{"op":"delete"},{"op":"delete"},{"op":"delete"},{"op":"delete"}]}"#,
    ])
    func nothingOfAWrongQueueIsCarriedOut(_ body: String) {
        #expect(throws: ActionBatch.Problem.self) { try envelopes(body) }
    }
}
