import Care
import JSON
import Testing

/// An error names the first wrong member of an action.
@Suite(.timeLimit(.minutes(15)))
struct DoseActionTests {
    private static let now = Timestamp(microseconds: 1_763_125_200_000_000)  // 2025-11-14T13:00Z

    private func parse(_ type: String, _ payload: String, zone: String? = nil) throws -> DoseAction {
        try DoseAction.parse(
            type: type, payload: try JSONTree(payload), zone: zone, now: Self.now, isKnownZone: { $0 == "UTC" })
    }

    private static func text(_ count: Int) -> String { String(repeating: "é", count: count) }

    @Test(arguments: [
        ("take", "{}", "type"), ("", "{}", "type"), ("marktaken", "{}", "type"), ("markTaken", "[]", "payload"),
        ("markTaken", "null", "payload"), ("markTaken", "{}", "payload.occurrenceId"),
        ("markTaken", #"{"occurrenceId":null}"#, "payload.occurrenceId"),
        ("markTaken", #"{"occurrenceId":""}"#, "payload.occurrenceId"),
        ("markTaken", #"{"occurrenceId":7}"#, "payload.occurrenceId"),
        ("markTaken", "{\"occurrenceId\":\"\(text(100))x\"}", "payload.occurrenceId"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":"now","note":7}"#, "payload.takenAt"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":1763211600001}"#, "payload.takenAt"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":1.5}"#, "payload.takenAt"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":946684799999}"#, "payload.takenAt"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":9e18}"#, "payload.takenAt"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":true}"#, "payload.takenAt"),
        ("markTaken", #"{"occurrenceId":"d","note":" \t\r\n"}"#, "payload.note"),
        ("markTaken", "{\"occurrenceId\":\"d\",\"note\":\"\(text(4001))\"}", "payload.note"),
        ("markMissed", #"{"occurrenceId":"d","note":""}"#, "payload.note"),
        ("makeUp", #"{"occurrenceId":"d","at":"x","takenAt":"y"}"#, "payload.at"),
        ("makeUp", #"{"occurrenceId":"d","takenAt":"y"}"#, "payload.takenAt"),
        ("makeUp", #"{"occurrenceId":"d","reason":""}"#, "payload.reason"),
        ("skip", "{\"occurrenceId\":\"d\",\"reason\":\"\(text(501))\",\"note\":1}", "payload.reason"),
        ("addNote", #"{"occurrenceId":"d"}"#, "payload.text"),
        ("addNote", #"{"occurrenceId":"d","note":1}"#, "payload.note"),
        ("addNote", #"{"occurrenceId":"d","text":1,"note":"n"}"#, "payload.text"),
        ("undo", "{}", "payload.targetKey"), ("undo", #"{"targetKey":[]}"#, "payload.targetKey"),
        ("bulkMarkAll", "{}", "payload.occurrenceIds"),
        ("bulkMarkAll", #"{"occurrenceIds":[],"criteria":{}}"#, "payload.criteria"),
        ("bulkMarkAll", #"{"occurrenceIds":"d"}"#, "payload.occurrenceIds"),
        ("bulkMarkAll", #"{"occurrenceIds":[]}"#, "payload.occurrenceIds"),
        (
            "bulkMarkAll", "{\"occurrenceIds\":[\(Array(repeating: "1", count: 201).joined(separator: ","))]}",
            "payload.occurrenceIds"
        ),
        ("bulkMarkAll", #"{"occurrenceIds":["d","e",null,"f"]}"#, "payload.occurrenceIds[2]"),
        ("bulkMarkAll", #"{"occurrenceIds":["d"],"takenAt":"x","includeFuture":7}"#, "payload.takenAt"),
        ("bulkMarkAll", #"{"occurrenceIds":["d"],"includeFuture":"yes"}"#, "payload.includeFuture"),
        ("bulkMarkAll", #"{"criteria":[]}"#, "payload.criteria"),
        ("bulkMarkAll", #"{"criteria":{"productID":"p"}}"#, "payload.criteria"),
        ("bulkMarkAll", #"{"criteria":{"date":"2025-02-29"}}"#, "payload.criteria.date"),
        ("bulkMarkAll", #"{"criteria":{"date":"2025-11-14","productId":7}}"#, "payload.criteria.productId"),
        ("bulkMarkAll", #"{"criteria":{"scheduleId":7}}"#, "payload.criteria.scheduleId"),
        ("bulkMarkAll", #"{"criteria":{"includeFuture":7}}"#, "payload.criteria.includeFuture"),
        ("resolve", "{}", "payload.of"), ("resolve", #"{"of":"k"}"#, "payload.choice"),
        ("resolve", #"{"of":"k","choice":"both"}"#, "payload.choice"),
        ("resolve", #"{"of":"k","choice":"merge","merged":[]}"#, "payload.merged"),
        ("resolve", #"{"of":"k","choice":"merge","merged":{"state":"taken"}}"#, "payload.merged"),
        ("resolve", #"{"of":"k","choice":"merge","merged":{"status":"cancelled"}}"#, "payload.merged.status"),
        ("resolve", #"{"of":"k","choice":"merge","merged":{"takenAt":""}}"#, "payload.merged.takenAt"),
        ("resolve", #"{"of":"k","choice":"merge","merged":{"reason":1}}"#, "payload.merged.reason"),
        ("resolve", #"{"of":"k","choice":"accept_server","merged":{"note":" "}}"#, "payload.merged.note"),
    ])
    func refusals(_ type: String, _ payload: String, _ path: String) throws {
        let error = #expect(throws: InvalidAction.self) { try parse(type, payload) }
        #expect(error?.path == path)
    }

    @Test(arguments: [
        ("markTaken", #"{"occurrenceId":"d"}"#), ("markTaken", "{\"occurrenceId\":\"\(text(100))\"}"),
        ("markTaken", #"{"occurrenceId":"d","takenAt":1763211600000,"note":null,"other":7}"#),
        ("markTaken", #"{"occurrenceId":"d","takenAt":"2025-11-14T08:00:00-05:00"}"#),
        ("markMissed", "{\"occurrenceId\":\"d\",\"note\":\"\(text(4000))\"}"),
        ("makeUp", "{\"occurrenceId\":\"d\",\"reason\":\"\(text(500))\"}"),
        ("skip", #"{"occurrenceId":"d","reason":" "}"#),
        ("addNote", #"{"occurrenceId":"d","text":"n"}"#), ("addNote", #"{"occurrenceId":"d","note":"n"}"#),
        ("undo", #"{"targetKey":"k"}"#), ("bulkMarkAll", #"{"occurrenceIds":["d","d"]}"#),
        ("bulkMarkAll", "{\"occurrenceIds\":[\(Array(repeating: "\"d\"", count: 200).joined(separator: ","))]}"),
        ("bulkMarkAll", #"{"criteria":{}}"#), ("bulkMarkAll", #"{"criteria":{"date":"2024-02-29"}}"#),
        ("resolve", #"{"of":"k","choice":"keep_local"}"#), ("resolve", #"{"of":"k","choice":"merge","merged":{}}"#),
    ])
    func acceptances(_ type: String, _ payload: String) throws {
        _ = try parse(type, payload)
    }

    /// A zone matters only when it determines today's date.
    @Test func zones() throws {
        #expect(throws: InvalidAction("tz", "is no zone that is known here")) {
            try parse("bulkMarkAll", #"{"criteria":{}}"#, zone: "Nowhere")
        }
        _ = try parse("bulkMarkAll", #"{"criteria":{}}"#, zone: "UTC")
        _ = try parse("bulkMarkAll", #"{"criteria":{"date":"2025-11-14"}}"#, zone: "Nowhere")
        _ = try parse("markTaken", #"{"occurrenceId":"d"}"#, zone: "Nowhere")
    }

    @Test(
        arguments: [
            ("{}", nil), (#"{"rev":3}"#, 3), (#"{"d":{"rev":4}}"#, 4), (#"{"rev":3,"d":{"rev":4}}"#, 3),
            (#"{"e":{"rev":4},"d":7}"#, nil), (#"{"d":{}}"#, nil), (#"{"rev":null,"d":{"rev":4.0}}"#, 4),
            (#"{"rev":3,"d":{"rev":"x"}}"#, 3),
        ] as [(String, Int64?)])
    func revisionsSeen(_ base: String, _ rev: Int64?) throws {
        #expect(try SeenRevisions(try JSONTree(base)).rev(of: "d") == rev)
    }

    @Test(arguments: [
        "[]", "7", #"{"rev":-1}"#, #"{"rev":"1"}"#, #"{"rev":1.5}"#, #"{"d":{"rev":-1}}"#, #"{"rev":9007199254740993}"#,
        #"{"d":{"rev":1},"e":{"rev":[]}}"#,
    ])
    func revisionsRefused(_ base: String) throws {
        let tree = try JSONTree(base)
        let error = #expect(throws: InvalidAction.self) { try SeenRevisions(tree) }
        #expect(error?.path == "base")
    }
}
