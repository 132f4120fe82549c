import Bytes
import FuzzProperties
import RESP
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct RESPParserTests {
    private static let bytesMax = 1 << 20

    private static func text(_ text: String) -> RESPValue { .bytes(Array(text.utf8)) }

    private static func parsed(
        _ pieces: [ArraySlice<UInt8>], bytesMax: Int = bytesMax
    ) -> (values: [RESPValue], problem: RESPProblem?, isWithin: Bool) {
        var (parser, values) = (RESPParser(bytesMax: bytesMax), [RESPValue]())
        do throws(RESPProblem) {
            for piece in pieces {
                try withBytes(Array(piece)) { bytes throws(RESPProblem) in try parser.read(bytes, &values) }
            }
        } catch {
            return (values, error, parser.isWithinValue)
        }
        return (values, nil, parser.isWithinValue)
    }

    private static func parsed(_ text: String, bytesMax: Int = bytesMax) -> (values: [RESPValue], problem: RESPProblem?)
    {
        let (values, problem, _) = parsed([Array(text.utf8)[...]], bytesMax: bytesMax)
        return (values, problem)
    }

    /// From the specification, and as Redis 7 sends it.
    private static let examples: [(String, RESPValue)] = [
        ("+OK\r\n", text("OK")), ("+\r\n", text("")), ("$5\r\nhello\r\n", text("hello")), ("$0\r\n\r\n", text("")),
        ("$4\r\n\r\n\r\n\r\n", text("\r\n\r\n")), ("$-1\r\n", .null), ("*-1\r\n", .null), ("_\r\n", .null),
        (":0\r\n", .integer(0)), (":-1000\r\n", .integer(-1_000)), (":+7\r\n", .integer(7)),
        (":9223372036854775807\r\n", .integer(.max)), (":-9223372036854775808\r\n", .integer(.min)),
        ("#t\r\n", .boolean(true)), ("#f\r\n", .boolean(false)),
        (",1.25\r\n", .double(1.25)), (",10\r\n", .double(10)), (",-1.5e-7\r\n", .double(-1.5e-7)),
        (",inf\r\n", .double(.infinity)), (",-inf\r\n", .double(-.infinity)),
        ("(3492890328409238509324850943850943825024385\r\n", text("3492890328409238509324850943850943825024385")),
        ("(-34\r\n", text("-34")),
        ("=15\r\ntxt:Some string\r\n", text("Some string")), ("=4\r\nmkd:\r\n", text("")),
        ("-ERR unknown command\r\n", .error(RESPError(Array("ERR unknown command".utf8)))),
        ("!22\r\nSYNTAX invalid\r\nsyntax\r\n", .error(RESPError(Array("SYNTAX invalid\r\nsyntax".utf8)))),
        ("*0\r\n", .array([])), ("~0\r\n", .array([])), ("%0\r\n", .map([])), (">0\r\n", .push([])),
        ("*2\r\n$1\r\na\r\n*1\r\n:1\r\n", .array([text("a"), .array([.integer(1)])])),
        ("~2\r\n+a\r\n#t\r\n", .array([text("a"), .boolean(true)])),
        ("%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n", .map([text("a"), .integer(1), text("b"), .map([])])),
        (">3\r\n+message\r\n+c\r\n+m\r\n", .push([text("message"), text("c"), text("m")])),
        // An attribute is about what comes behind it, wherever that is.
        ("|1\r\n+ttl\r\n:3600\r\n+OK\r\n", text("OK")), ("|0\r\n:5\r\n", .integer(5)),
        ("*2\r\n|1\r\n+ttl\r\n*1\r\n:1\r\n:2\r\n:3\r\n", .array([.integer(2), .integer(3)])),
    ]

    @Test func readsEachKind() {
        for (wire, value) in Self.examples {
            let (values, problem) = Self.parsed(wire)
            #expect(values == [value] && problem == nil, "\(wire.debugDescription)")
        }
        guard case .double(let number)? = Self.parsed(",nan\r\n").values.first else {
            Issue.record("not a number")
            return
        }
        #expect(number.isNaN)
    }

    @Test func readsCutAnywhere() {
        let wire = Array(Self.examples.map(\.0).joined().utf8)
        let values = Self.examples.map(\.1)
        for split in 0...wire.count {
            let (found, problem, isWithin) = Self.parsed([wire[..<split], wire[split...]])
            #expect(found == values && problem == nil && !isWithin, "cut at \(split)")
        }
        let (found, problem, isWithin) = Self.parsed(wire.indices.map { wire[$0...$0] })
        #expect(found == values && problem == nil && !isWithin)
    }

    @Test func saysWhetherAValueIsWhole() {
        for (wire, _) in Self.examples {
            let bytes = Array(wire.utf8)
            for count in 1..<bytes.count {
                let (values, problem, isWithin) = Self.parsed([bytes[..<count]])
                #expect(values.isEmpty && problem == nil && isWithin, "\(wire.debugDescription), \(count) bytes")
            }
        }
    }

    @Test(arguments: [
        "\n", "\r\n", "OK\r\n", "?\r\n", "+a\n", "+a\rb\r\n", ":\r\n", ":1 \r\n", ": 1\r\n", ":1.5\r\n",
        ":9223372036854775808\r\n", "#\r\n", "#true\r\n", "#x\r\n", "_x\r\n", ",\r\n", ",x\r\n", ",0x10\r\n",
        ",infinity\r\n",
        ",1_0\r\n", "(\r\n", "(-\r\n", "(1.5\r\n", "$\r\n", "$-2\r\n", "$+1\r\na\r\n", "$a\r\n", "$?\r\n", "*?\r\n",
        "*-2\r\n",
        "%-1\r\n", "~-1\r\n", ">-1\r\n", "!-1\r\n", "=-1\r\n", "$1\r\nab\r\n", "$1\r\na\n\n", "$1\r\na\r\r",
        "=3\r\ntxt\r\n",
        "=5\r\ntextx\r\n", "*1\r\n>1\r\n+a\r\n", "%1\r\n+a\r\n>0\r\n", "|1\r\n>0\r\n+a\r\n+b\r\n",
        "$18446744073709551616\r\n",
    ]) func refuses(_ wire: String) {
        #expect(Self.parsed(wire).problem == .malformed)
        #expect(Self.parsed("+first\r\n" + wire).values == [Self.text("first")])
    }

    @Test func aValueHasABound() {
        for (wire, value) in Self.examples {
            let count = wire.utf8.count
            #expect(Self.parsed(wire, bytesMax: count).values == [value], "\(wire.debugDescription)")
            #expect(Self.parsed(wire, bytesMax: count - 1).problem == .tooLong, "\(wire.debugDescription)")
        }
        // Of each value, not of all.
        #expect(Self.parsed("+abc\r\n+def\r\n", bytesMax: 6).values.count == 2)
        // An attribute belongs to its value.
        #expect(Self.parsed("|1\r\n+a\r\n+b\r\n+c\r\n", bytesMax: 15).problem == .tooLong)
        // A promise takes no memory.
        #expect(Self.parsed("$9223372036854775807\r\n").problem == .tooLong)
        for group in ["*", "~", "%", "|", ">"] {
            #expect(Self.parsed(group + "9223372036854775807\r\n").problem == .tooLong)
        }
        #expect(Self.parsed("*349525\r\n", bytesMax: 1 << 20).problem == .tooLong)
        #expect(Self.parsed("*349522\r\n", bytesMax: 1 << 20).problem == nil)
    }

    @Test func valuesWithinValuesHaveABound() {
        let deepest = String(repeating: "*1\r\n", count: RESPParser.depthMax) + ":1\r\n"
        #expect(Self.parsed(deepest).values.count == 1)
        #expect(Self.parsed("*1\r\n" + deepest).problem == .tooDeep)
        // Empty ones too: what is refused does not depend on what is within.
        #expect(Self.parsed(String(repeating: "*1\r\n", count: RESPParser.depthMax) + "*0\r\n").problem == .tooDeep)
    }

    @Test func anErrorHasACode() {
        func code(_ message: String) -> String { RESPError(Array(message.utf8)).code }
        #expect(code("NOSCRIPT No matching script.") == "NOSCRIPT")
        #expect(code("LOADING Redis is loading the dataset in memory") == "LOADING")
        #expect(code("OOM") == "OOM")
        #expect(code("") == "")
        #expect(code("Err x") == "")
        #expect(code("ERR2 x") == "")
        #expect(code(" ERR x") == "")
        // What a script was given may be in capitals.
        #expect(code("ASPIRIN500MG") == "")
        #expect(code(String(repeating: "A", count: 25)) == "")
    }

    @Test func readsWhatIsWritten() {
        var random = SeededRandom()
        for _ in 0..<500 {
            let values = (0..<Int.random(in: 1...4, using: &random)).map { _ in RESPWriting.value(2, using: &random) }
            var writer = ByteWriter(capacity: 64)
            for value in values { RESPWriting.write(value, &writer) }
            let wire = writer.array
            let cuts = (0..<3).map { _ in Int.random(in: 0...wire.count, using: &random) }.sorted()
            let pieces = zip([0] + cuts, cuts + [wire.count]).map { wire[$0..<$1] }
            let (found, problem, isWithin) = Self.parsed(pieces)
            #expect(found == values && problem == nil && !isWithin, "seed \(random.seed)")
        }
    }

    /// As `redis-cli` would send it.
    @Test func writesCommands() {
        func written(_ parts: [String]) -> String {
            var writer = ByteWriter(capacity: 16)
            writer.append(command: parts.map { Array($0.utf8) })
            return writer.string
        }
        #expect(written(["PING"]) == "*1\r\n$4\r\nPING\r\n")
        #expect(written(["SET", "", "a\r\nb"]) == "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n")
        #expect(
            Self.parsed(written(["SET", "é", "1"])).values == [
                .array([Self.text("SET"), Self.text("é"), Self.text("1")])
            ])
    }
}
