import Bytes
import Sync
import Testing

@testable import API

@Suite struct PlainAnswerTests {
    private func body(
        _ status: ActionStatus, _ json: String,
        to action: String = #"{"idempotencyKey":"k","actionType":"t","payload":{}}"#,
        plain: ActionShape = .plain
    ) throws -> String {
        let wording = try ActionEnvelope.decode(Array(action.utf8), plain: plain, keyField: nil).wording
        return String(
            decoding: PlainAnswer.body(of: ActionAnswer(status: status, json: .copy(json)), to: wording), as: UTF8.self)
    }

    @Test(arguments: [
        (#"{"status":"applied","result":{"id":"d1","n":[1,{}]}}"#, #"{"id":"d1","n":[1,{}],"#, false),
        // Copied as it came, including blanks and escapes.
        (#"{ "result" : { "a" : "\u00fc" } , "status" : "applied" }"#, #"{ "a" : "\u00fc" ,"#, false),
        (#"{"status":"applied","result":{}}"#, "{", false), (#"{"status":"applied","result":{ }}"#, "{ ", false),
        (#"{"status":"applied","result":null}"#, "{", false), (#"{"status":"applied","result":[1]}"#, "{", false),
        (#"{"status":"applied"}"#, "{", false), (#"{"status":"applied","replayed":true,"x":1}"#, "{", true),
        (#"{"status":"applied","replayed":"true"}"#, "{", false),
    ])
    func theEntityStandsAtTheTop(_ json: String, _ start: String, _ isReplayed: Bool) throws {
        #expect(try body(.applied, json) == #"\#(start)"_sync":{"replayed":\#(isReplayed),"status":"applied"}}"#)
    }

    @Test(arguments: [
        (
            #"{"key":"k","status":"conflict","code":"state","message":"no","conflict":{"options":[]}}"#,
            #"{"error":"no","code":"state","conflict":{"options":[]},"#
        ),
        (#"{"status":"conflict","key":"k","code":"late"}"#, #"{"code":"late","#),
        (#"{"key":"k","status":"conflict"}"#, "{"),
        (#"{"key":"k","status":"conflict","path":"type"}"#, #"{"path":"actionType","#),
        (#"{"key":"k","status":"conflict","path":7,"result":{"a":1}}"#, #"{"path":7,"result":{"a":1},"#),
    ])
    func errorsHaveTheirReason(_ json: String, _ start: String) throws {
        #expect(try body(.conflict, json) == #"\#(start)"_sync":{"replayed":false,"key":"k","status":"conflict"}}"#)
    }

    /// If the client wrote the payload's members beside the key, errors name them that way.
    @Test func fieldsAreNamedAsTheClientDoes() throws {
        let answer = ActionAnswer.invalid(key: "k", path: "payload.takenAt", message: "wrong")
        let json = answer.json.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        let outside = #"{"idempotencyKey":"k","occurrenceIds":["a"],"takenAt":"x"}"#
        let (inside, bare) = try (body(.rejected, json), body(.rejected, json, to: outside, plain: .plainBulk))
        #expect(inside.hasPrefix(#"{"error":"wrong","code":"invalid","path":"payload.takenAt","#))
        #expect(bare.hasPrefix(#"{"error":"wrong","code":"invalid","path":"takenAt","#))
    }

    @Test func aRetryTellsWhen() throws {
        let answer = ActionAnswer.retry(key: "k", .busy, after: .milliseconds(1_500), message: "later")
        let json = answer.json.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        #expect(
            try body(.retry, json) == #"{"error":"later","code":"busy","#
                + #""_sync":{"replayed":false,"key":"k","status":"retry","afterMs":1500}}"#)
    }

    @Test(arguments: ["", "null", "[]", "{", #"{"status":"applied""#, "x"])
    func whatIsNoObjectIsHandedOn(_ json: String) throws { #expect(try body(.applied, json) == json) }
}
