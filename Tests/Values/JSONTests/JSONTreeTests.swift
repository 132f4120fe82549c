import JSON
import Testing

/// Trees with the semantics of `jsonb`. (The differential test compares with PostgreSQL itself.)
@Suite(.timeLimit(.minutes(15)))
struct JSONTreeTests {
    @Test(arguments: [
        ("null", "null"), (" [ ] ", "[]"), ("{}", "{}"), ("[1,2]", "[1, 2]"), (#"{"b":1,"a":2}"#, #"{"a": 2, "b": 1}"#),
        (#"{"bb":1,"c":2,"a":3}"#, #"{"a": 3, "c": 2, "bb": 1}"#), (#"{"a":1,"a":2}"#, #"{"a": 2}"#),
        (#"{"é":1,"zz":2,"aa":3}"#, #"{"aa": 3, "zz": 2, "é": 1}"#), (#""\u00e9\n\/\ud83d\ude00""#, #""é\n/😀""#),
        (#""\u0001\u007f\"\\""#, "\"\\u0001\u{7F}\\\"\\\\\""), ("1.0", "1.0"), ("1e3", "1000"), ("1.5E2", "150"),
        ("1.25e1", "12.5"), ("12e-1", "1.2"), ("5e-3", "0.005"), ("-0", "0"), ("-0.0", "0.0"), ("-1e+2", "-100"),
        ("0e5", "0"), ("true", "true"), ("[false]", "[false]"),
    ])
    func isWrittenCanonically(_ text: String, _ canonical: String) throws {
        let tree = try JSONTree(text)
        #expect(tree.canonicalText == canonical)
        #expect(try JSONTree(canonical).canonicalText == canonical)
    }

    @Test(arguments: ["", "{", "[1,]", "nul", "\"\\ud800\"", "01", "[1] 2"])
    func refusesOthers(_ text: String) {
        #expect(throws: (any Error).self) { try JSONTree(text) }
    }

    @Test func nestsOnlySoDeep() throws {
        _ = try JSONTree(String(repeating: "[", count: 8) + String(repeating: "]", count: 8), maxDepth: 8)
        #expect(throws: (any Error).self) {
            try JSONTree(String(repeating: "[", count: 9) + String(repeating: "]", count: 9), maxDepth: 8)
        }
    }

    @Test(
        arguments: [
            ("1", 1), ("-7", -7), ("1.0", 1), ("1e3", 1000), ("9223372036854775807", .max), ("1.5", nil), ("true", nil),
            ("\"1\"", nil), ("9223372036854775808", nil), ("1e400", nil), ("1e401", nil),
            ("1e99999999999999999999", nil),
        ] as [(String, Int64?)])
    func integers(_ text: String, _ value: Int64?) throws {
        #expect(try JSONTree(text).integer == value)
    }

    @Test func nullIsAbsent() throws {
        let tree = try JSONTree(#"{"a":null,"b":false,"é":1}"#)
        #expect(tree["a"] == nil)
        #expect(tree["b"] != nil)
        #expect(tree["c"] == nil)
        #expect(tree["e\u{301}"] == nil)
    }
}
