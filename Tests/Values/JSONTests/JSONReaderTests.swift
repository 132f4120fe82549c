import Bytes
import JSON
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct JSONReaderTests {
    /// The error of reading `text` as one value; nil when it is valid.
    private func failure(_ text: [UInt8], maxDepth: Int = JSONLimits.defaultDepth) -> JSONError? {
        withBytes(text) { bytes in
            do throws(JSONError) {
                _ = try JSONValue.parse(bytes, maxDepth: maxDepth)
                return nil
            } catch {
                return error
            }
        }
    }

    private func failure(_ text: String, maxDepth: Int = JSONLimits.defaultDepth) -> JSONError? {
        failure(Array(text.utf8), maxDepth: maxDepth)
    }

    @Test(arguments: [
        "null", " true ", "false", "0", "-0", "-12.5e+10", "1E3", "0.1", "\"\"", "\"é€𝄞\"", "[]", "[ ]", "{}", "{ }",
        "[1,[2,{\"a\":[{}]}],\"x\"]", "{\"a\":1,\"b\":{\"c\":[null,true]},\"a\":2}", "\t\r\n[\n]\t", "[[],{},[[]]]",
        #""\"\\\/\b\f\n\r\t\u0000\u20ac\uD834\uDD1E""#, "[\"12345678\\n12345678é12345678\"]",
    ]) func acceptsValidText(text: String) { #expect(failure(text) == nil) }

    @Test(
        arguments: [
            ("", .unexpectedEnd, 0), ("  ", .unexpectedEnd, 2), ("tru", .unexpectedEnd, 3),
            ("trux", .unexpectedByte, 3),
            ("nul", .unexpectedEnd, 3), ("[", .unexpectedEnd, 1), ("[1", .unexpectedEnd, 2), ("[1,", .unexpectedEnd, 3),
            ("[1,]", .unexpectedByte, 3), ("[,1]", .unexpectedByte, 1), ("[1 2]", .unexpectedByte, 3),
            ("[1}", .unexpectedByte, 2), ("{", .unexpectedEnd, 1), ("{]", .unexpectedByte, 1),
            ("{\"a\"", .unexpectedEnd, 4), ("{\"a\":", .unexpectedEnd, 5), ("{\"a\":1", .unexpectedEnd, 6),
            ("{\"a\":1,}", .unexpectedByte, 7), ("{\"a\" 1}", .unexpectedByte, 5), ("{a:1}", .unexpectedByte, 1),
            ("{1:2}", .unexpectedByte, 1), ("{\"a\":1]", .unexpectedByte, 6), ("1 2", .trailingBytes, 2),
            ("{} x", .trailingBytes, 3), ("[]]", .trailingBytes, 2), ("01", .invalidNumber, 1),
            ("-", .unexpectedEnd, 1),
            ("1.", .unexpectedEnd, 2), ("1.x", .invalidNumber, 2), ("1e", .unexpectedEnd, 2),
            ("1e+", .unexpectedEnd, 3),
            ("+1", .unexpectedByte, 0), (".5", .unexpectedByte, 0), ("-x", .invalidNumber, 1),
            ("NaN", .unexpectedByte, 0),
            ("'a'", .unexpectedByte, 0), ("\"a", .unexpectedEnd, 2), ("\"\\", .unexpectedEnd, 2),
            ("\"\\x\"", .invalidEscape, 1), ("\"\\u12\"", .invalidEscape, 5), ("\"\\u12", .unexpectedEnd, 5),
            ("\"\\uD834\"", .loneSurrogate, 1), ("\"\\uD834x\"", .loneSurrogate, 1), ("\"\\uDD1E\"", .loneSurrogate, 1),
            ("\"\\uD834\\n\"", .loneSurrogate, 1), ("\"\\uD834\\uD834\"", .loneSurrogate, 1),
            ("\"a\nb\"", .controlByte, 2),
            ("\"12345678\u{1}\"", .controlByte, 9), ("// x\n1", .unexpectedByte, 0), ("\u{FEFF}1", .unexpectedByte, 0),
        ] as [(String, JSONError.Kind, Int)]) func refusesInvalidText(text: String, kind: JSONError.Kind, offset: Int)
    {
        #expect(failure(text) == JSONError(kind, at: offset))
    }

    @Test(
        arguments: [[0x80], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xE2, 0x22], [0xFF]]
            as [[UInt8]])
    func refusesInvalidUTF8(bytes: [UInt8]) {
        #expect(failure([0x22] + bytes + [0x22])?.kind == .invalidUTF8)
        #expect(failure(Array("[\"12345678".utf8) + bytes + Array("\"]".utf8))?.kind == .invalidUTF8)
        #expect(failure(Array("{\"".utf8) + bytes + Array("\":1}".utf8))?.kind == .invalidUTF8)
    }

    @Test func depthIsBoundedAtTheLimit() {
        for limit in [1, 2, 32, 64] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let inner = open == "[" ? "" : "1"
                let exact = String(repeating: open, count: limit) + inner + String(repeating: close, count: limit)
                let past =
                    String(repeating: open, count: limit + 1) + inner + String(repeating: close, count: limit + 1)
                #expect(failure(exact, maxDepth: limit) == nil)
                #expect(failure(past, maxDepth: limit)?.kind == .tooDeep)
            }
        }
        #expect(failure(String(repeating: "[", count: 10_000))?.kind == .tooDeep)
        #expect(failure(String(repeating: "{\"a\":", count: 10_000))?.kind == .tooDeep)
        #expect(
            failure(String(repeating: "[", count: 65) + String(repeating: "]", count: 65), maxDepth: 1000)?.kind
                == .tooDeep)
    }

    @Test func readersCountTheirOwnLevel() throws {
        try withBytes("{\"a\":[[]]}") { bytes throws(JSONError) in
            var reader = try JSONObjectReader(bytes, maxDepth: 3)
            _ = try reader.next()
        }
        #expect(throws: JSONError(.tooDeep, at: 6)) {
            try withBytes("{\"a\":[[]]}") { bytes throws(JSONError) in
                var reader = try JSONObjectReader(bytes, maxDepth: 2)
                _ = try reader.next()
            }
        }
        #expect(throws: JSONError(.tooDeep, at: 0)) {
            try withBytes("{}") { bytes throws(JSONError) in _ = try JSONObjectReader(bytes, maxDepth: 0) }
        }
    }

    @Test func walksMembers() throws {
        let text =
            #" {"event":"pusher:subscribe", "n": -42 ,"data":{"auth":"","list":[1,"two",null]},"\u0065":"\u00e9\n"} "#
        try withBytes(text) { bytes throws(JSONError) in
            var reader = try JSONObjectReader(bytes)
            let event = try reader.next()
            #expect(event?.isNamed("event") == true)
            #expect(event?.value.string == "pusher:subscribe")
            #expect(event?.value.equals("pusher:subscribe") == true)
            #expect(event?.value.equals("pusher:subscrib") == false)
            #expect(try reader.next()?.value.integer == -42)
            let data = try reader.next()?.value
            #expect(data?.bytes.string == #"{"auth":"","list":[1,"two",null]}"#)
            var members = try data?.object()
            #expect(try members?.next()?.value.plainBytes?.count == 0)
            var list = try members?.next()?.value.array()
            #expect(try list?.next()?.integer == 1)
            #expect(try list?.next()?.string == "two")
            #expect(try list?.next()?.kind == .null)
            #expect(try list?.next() == nil)
            #expect(try list?.next() == nil)
            let escaped = try reader.next()
            #expect(escaped?.isNamed("e") == true)
            #expect(escaped?.value.plainBytes == nil)
            #expect(escaped?.value.string == "é\n")
            #expect(escaped?.value.characters == Array("é\n".utf8))
            #expect(try reader.next() == nil)
            #expect(try reader.next() == nil)
        }
    }

    @Test func wrongKindsAreErrors() {
        #expect(throws: JSONError(.wrongKind, at: 0)) {
            try withBytes("[]") { bytes throws(JSONError) in _ = try JSONObjectReader(bytes) }
        }
        #expect(throws: JSONError(.wrongKind, at: 1)) {
            try withBytes(" 1") { bytes throws(JSONError) in _ = try JSONValue.parse(bytes).object() }
        }
        #expect(throws: JSONError(.wrongKind, at: 0)) {
            try withBytes("\"a\"") { bytes throws(JSONError) in _ = try JSONValue.parse(bytes).array() }
        }
    }

    @Test(
        arguments: [
            ("9223372036854775807", Int64.max), ("-9223372036854775807", -Int64.max), ("9223372036854775808", nil),
            ("1.0", nil), ("1e2", nil), ("\"1\"", nil), ("-0", 0),
        ] as [(String, Int64?)]) func integers(text: String, value: Int64?) throws
    {
        try withBytes(text) { bytes throws(JSONError) in #expect(try JSONValue.parse(bytes).integer == value) }
    }

    @Test func decodesEveryEscape() throws {
        let text = #""\"\\\/\b\f\n\r\t\u0041\u00E9\u20AC\uD834\uDD1E\u0000 plain é""#
        try withBytes(text) { bytes throws(JSONError) in
            let value = try JSONValue.parse(bytes)
            #expect(value.string == "\"\\/\u{8}\u{C}\n\r\tAé€𝄞\u{0} plain é")
        }
    }

    @Test func everyTruncationEndsUnexpectedly() {
        let text = Array(#"{"a":[1.5e3,true,{"b":"x\u00e9\uD834\uDD1E é"}],"c":null}"#.utf8)
        #expect(failure(text) == nil)
        for count in 0..<text.count { #expect(failure(Array(text[..<count]))?.kind == .unexpectedEnd, "\(count)") }
    }
}
