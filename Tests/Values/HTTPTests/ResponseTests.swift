import Bytes
import HTTP
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ResponseTests {
    @Test func writesAResponse() {
        var writer = ByteWriter()
        writer.append(response: .ok, keepsAlive: true, body: ("{}" as StaticString).bytes) { writer in
            writer.append(field: "X-Text", "a\r\nb: c\u{0}é" as String)
            writer.append(field: "X-Number", decimal: 7)
        }
        #expect(
            writer.string == """
                HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\
                X-Text: a  b: c é\r\nX-Number: 7\r\n\r\n{}
                """)
    }

    @Test func omitsBodies() {
        var writer = ByteWriter()
        writer.append(response: .ok, keepsAlive: false, omitsBody: true, body: ("{}" as StaticString).bytes)
        #expect(writer.string.hasSuffix("Content-Length: 2\r\nConnection: close\r\n\r\n"))
        writer.removeAll()
        writer.append(response: .noContent, keepsAlive: true, body: ("x" as StaticString).bytes)
        #expect(writer.string == "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n")
    }

    @Test func refusalsNameTheirStatus() throws {
        var writer = ByteWriter()
        writer.append(refusal: .headTooLarge)
        try withBytes(writer.array) { bytes throws(HTTPError) in
            let head = try ResponseHead.parse(bytes)
            #expect(head?.statusCode == 431)
            #expect(head?.field("connection", contains: "close") == true)
        }
        #expect(writer.string.hasSuffix("\r\n\r\n{\"error\":\"The header fields are too large.\",\"code\":431}\n"))
    }

    @Test func readsHeadsAtEveryTruncation() throws {
        let text = Array(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nrest".utf8)
        for count in 0...text.count {
            try withBytes(Array(text[..<count])) { bytes throws(HTTPError) in
                let head = try ResponseHead.parse(bytes)
                #expect((head != nil) == (count >= text.count - 4))
                #expect(head?.statusCode ?? 101 == 101)
                #expect(head?.consumed ?? text.count - 4 == text.count - 4)
                #expect(head?.field("upgrade")?.string ?? "websocket" == "websocket")
            }
        }
    }

    @Test(arguments: ["HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 999 x", "HTTP/1.1 200OK", "junk", ""])
    func refusesBadStatusLines(line: String) {
        #expect(throws: HTTPError.malformedStatusLine) {
            try withBytes(line + "\r\n\r\n") { bytes throws(HTTPError) in _ = try ResponseHead.parse(bytes) }
        }
    }

    @Test func boundsHeads() {
        #expect(throws: HTTPError.headTooLarge) {
            try withBytes([UInt8](repeating: 0x61, count: 8193)) { bytes throws(HTTPError) in
                _ = try ResponseHead.parse(bytes)
            }
        }
    }

    @Test func readsForms() {
        withBytes("a=1&b=x%20y+z&&c&=v&d=%C3%A9&a=2&bad=%zz&short=%4&utf=%FF") { form in
            #expect(FormReader.value("a", in: form) == "1")
            #expect(FormReader.value("b", in: form) == "x y z")
            #expect(FormReader.value("c", in: form) == "")
            #expect(FormReader.value("d", in: form) == "é")
            #expect(FormReader.value("bad", in: form) == nil)
            #expect(FormReader.value("short", in: form) == nil)
            #expect(FormReader.value("utf", in: form) == nil)
            #expect(FormReader.value("none", in: form) == nil)
            #expect(FormReader.rawValue("b", in: form)?.string == "x%20y+z")
            var reader = FormReader(form)
            var count = 0
            while reader.next() != nil { count += 1 }
            #expect(count == 9)
        }
        #expect(withBytes("a+b%2B") { Percent.decodeString($0) } == "a+b+")
    }

    /// Mutated requests and responses: an answer or an error, never a trap, and the same however the bytes are split.
    @Test func survivesMutation() throws {
        let requests = try Corpus.load("http-request").map(\.bytes)
        let responses = try Corpus.load("http-response").map(\.bytes)
        for seed in 0..<3000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = requests[Int(seed) % requests.count]
            let bytes = Mutation.apply(to: base, other: requests.randomElement(using: &random) ?? [], using: &random)
            let whole = Result { () throws(HTTPError) in try parse(bytes) }
            let split = Int.random(in: 0...bytes.count, using: &random)
            let pieces = Result { () throws(HTTPError) in try parse(bytes, splits: [split]) }
            switch (whole, pieces) {
            case (.success(let left), .success(let right)): #expect(left == right, "seed \(seed), split \(split)")
            case (.failure, .failure): break
            default: Issue.record("seed \(seed), split \(split): \(whole) but \(pieces)")
            }
            let response = Mutation.apply(to: responses[Int(seed) % responses.count], other: base, using: &random)
            withBytes(response) { _ = try? ResponseHead.parse($0) }
        }
    }
}
