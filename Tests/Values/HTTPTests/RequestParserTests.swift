import Bytes
import HTTP
import TestSupport
import Testing

/// What tests check of a request, copied from its buffer.
struct Summary: Equatable {
    var method: Method
    var path: String
    var query: String?
    var body: String
    var consumed: Int
    var keepsAlive: Bool

    init(
        _ method: Method, _ path: String, query: String? = nil, body: String = "", consumed: Int,
        keepsAlive: Bool = true
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.consumed = consumed
        self.keepsAlive = keepsAlive
    }

    init(_ request: ParsedRequest) {
        self.init(
            request.method, request.path.string, query: request.query?.string, body: request.body.string,
            consumed: request.consumed, keepsAlive: request.keepsAlive)
    }
}

/// Gives `text` to a parser in pieces, as a connection would, and returns all requests.
func parse(_ text: [UInt8], splits: [Int] = [], limits: HTTPLimits = HTTPLimits()) throws(HTTPError) -> [Summary] {
    var parser = RequestParser(limits: limits)
    var requests: [Summary] = []
    var pending: [UInt8] = []
    var previous = 0
    for end in splits + [text.count] {
        pending += text[previous..<end]
        previous = end
        while true {
            let rest = try withMutableBytes(pending) { buffer throws(HTTPError) -> (Summary?, [UInt8]) in
                let request = try parser.parse(buffer)
                return (request.map { Summary($0) }, Array(buffer.dropFirst(request?.consumed ?? 0)))
            }
            pending = rest.1
            guard let request = rest.0 else { break }
            requests.append(request)
        }
    }
    return requests
}

func failure(_ text: String, limits: HTTPLimits = HTTPLimits()) -> HTTPError? {
    do throws(HTTPError) {
        _ = try parse(Array(text.utf8), limits: limits)
        return nil
    } catch {
        return error
    }
}

@Suite(.timeLimit(.minutes(15))) struct RequestParserTests {
    static let upgrade = """
        GET /app/key?protocol=7&client=js HTTP/1.1\r\nHost: localhost:6001\r\nUpgrade: websocket\r\n\
        Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n
        """
    static let chunked = """
        POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n5;ext="a"\r\npedia\r\n\
        0a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n
        """

    @Test func namesOfFieldsAreTokens() {
        let others = Set("!#$%&'*+-.^_`|~".utf8)
        for byte in UInt8.min...UInt8.max {
            for index in 0..<19 {
                var name = Array("Sec-WebSocket-Key-X".utf8)
                name[index] = byte
                var bytes = Array("GET / HTTP/1.1\r\nHost: h\r\n".utf8) + name + Array(": v\r\n\r\n".utf8)
                let isToken = byte.isASCIIDigit || byte.isASCIILetter || others.contains(byte)
                // A colon ends the name, unless it comes first.
                let isFine = isToken || byte == UInt8(ascii: ":") && index > 0
                bytes.withUnsafeMutableBytes { buffer in
                    var parser = RequestParser()
                    #expect(((try? parser.parse(buffer)) != nil) == isFine, "\(byte) at \(index)")
                }
            }
        }
    }

    @Test(
        arguments: [
            (upgrade, [Summary(.get, "/app/key", query: "protocol=7&client=js", consumed: upgrade.utf8.count)]),
            ("\r\nGET / HTTP/1.0\r\n\r\n", [Summary(.get, "/", consumed: 20, keepsAlive: false)]),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", [Summary(.get, "/", consumed: 42)]),
            (
                "GET / HTTP/1.1\r\nhost:\r\nConnection: x ,close\r\n\r\n",
                [Summary(.get, "/", consumed: 47, keepsAlive: false)]
            ),
            ("GET http://h/p?q HTTP/1.1\r\nHost: h\r\n\r\n", [Summary(.get, "/p", query: "q", consumed: 38)]),
            ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", [Summary(.options, "*", consumed: 31)]),
            (
                "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /b? HTTP/1.1\r\nHost: h\r\n\r\n",
                [Summary(.post, "/a", body: "hello", consumed: 53), Summary(.get, "/b", query: "", consumed: 29)]
            ),
            (
                chunked + chunked,
                [Summary](
                    repeating: Summary(.post, "/c", body: "Wikipedia0123456789", consumed: chunked.utf8.count), count: 2
                )
            ),
            ("PUT /e HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", [Summary(.put, "/e", consumed: 47)]),
        ] as [(String, [Summary])]) func parsesAtEverySplit(text: String, expected: [Summary]) throws
    {
        let bytes = Array(text.utf8)
        #expect(try parse(bytes) == expected)
        for split in 0...bytes.count { #expect(try parse(bytes, splits: [split]) == expected, "split \(split)") }
        #expect(try parse(bytes, splits: Array(0..<bytes.count)) == expected)
    }

    @Test(
        arguments: [
            ("GET / HTTP/1.1\r\n\r\n", .missingHost), ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", .repeatedHost),
            ("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", .malformedHost),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", .malformedHost),
            ("GET / HTTP/1.1\nHost: h\n\n", .bareLineFeed), ("GET / HTTP/1.1\r\nHost: h\n\r\n", .bareLineFeed),
            ("\n", .bareLineFeed),
            ("GET / HTTP/1.1\r\nHost: h\r\n x\r\n\r\n", .foldedField),
            ("GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", .malformedField),
            ("GET / HTTP/1.1\r\nHost: h\r\nA\r\n\r\n", .malformedField),
            ("GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n", .malformedField),
            ("GET / HTTP/1.1\r\nHost: h\r\nA: b\u{0}c\r\n\r\n", .malformedField),
            ("GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", .malformedField),
            ("GET / HTTP/1.1\r\nHost: h\r\nÄ: b\r\n\r\n", .malformedField), ("GET /\r\n\r\n", .malformedRequestLine),
            ("\r\n\r\n", .malformedRequestLine),
            ("GET  / HTTP/1.1\r\n\r\n", .malformedRequestLine), ("GET / HTTP/1.1 \r\n\r\n", .malformedRequestLine),
            ("G@T / HTTP/1.1\r\n\r\n", .malformedRequestLine), ("GET / http/1.1\r\n\r\n", .malformedRequestLine),
            ("GET / HTTP/2.0\r\n\r\n", .unsupportedVersion), ("BREW / HTTP/1.1\r\n\r\n", .unknownMethod),
            ("get / HTTP/1.1\r\n\r\n", .unknownMethod),
            ("GET x HTTP/1.1\r\n\r\n", .malformedTarget), ("GET * HTTP/1.1\r\n\r\n", .malformedTarget),
            ("GET /# HTTP/1.1\r\n\r\n", .malformedTarget),
            ("GET /é HTTP/1.1\r\n\r\n", .malformedTarget), ("GET http:///x HTTP/1.1\r\n\r\n", .malformedTarget),
        ] as [(String, HTTPError)]) func refusesMalformedHeads(text: String, error: HTTPError)
    { #expect(failure(text) == error) }

    @Test(
        arguments: [
            ("Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", .repeatedLength),
            ("Content-Length: 1, 1\r\n\r\nx", .malformedLength),
            ("Content-Length: -1\r\n\r\n", .malformedLength), ("Content-Length: +1\r\n\r\n", .malformedLength),
            ("Content-Length:\r\n\r\n", .malformedLength),
            ("Content-Length: 0x1\r\n\r\n", .malformedLength),
            ("Content-Length: 99999999999999999999\r\n\r\n", .bodyTooLarge),
            ("Content-Length: 65537\r\n\r\n", .bodyTooLarge),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", .lengthAndChunks),
            ("Transfer-Encoding: gzip\r\n\r\n", .unknownTransferCoding),
            ("Transfer-Encoding: gzip, chunked\r\n\r\n", .unknownTransferCoding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", .unknownTransferCoding),
            ("Transfer-Encoding: xchunked\r\n\r\n", .unknownTransferCoding),
            ("Expect: tea\r\n\r\n", .unknownExpectation),
            ("Transfer-Encoding: chunked\r\n\r\nx\r\n", .malformedChunk),
            ("Transfer-Encoding: chunked\r\n\r\n\r\n", .malformedChunk),
            ("Transfer-Encoding: chunked\r\n\r\n-1\r\n", .malformedChunk),
            ("Transfer-Encoding: chunked\r\n\r\n1 \r\na", .malformedChunk),
            ("Transfer-Encoding: chunked\r\n\r\n1x\r\na", .malformedChunk),
            ("Transfer-Encoding: chunked\r\n\r\n1\nab", .bareLineFeed),
            ("Transfer-Encoding: chunked\r\n\r\n1\r\nabc", .malformedChunk),
            ("Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n", .bodyTooLarge),
            ("Transfer-Encoding: chunked\r\n\r\n10001\r\n", .bodyTooLarge),
            ("Transfer-Encoding: chunked\r\n\r\n0\r\nbad\r\n\r\n", .malformedField),
        ] as [(String, HTTPError)]) func refusesAmbiguousBodies(fields: String, error: HTTPError)
    {
        #expect(failure("POST / HTTP/1.1\r\nHost: h\r\n" + fields) == error)
    }

    @Test func chunksNeedHTTP11() {
        #expect(failure("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == .chunksBeforeHTTP11)
    }

    @Test func findsFields() throws {
        try withMutableBytes(Array(RequestParserTests.upgrade.utf8)) { buffer throws(HTTPError) in
            var parser = RequestParser()
            guard let request = try parser.parse(buffer) else { throw .missingHost }
            #expect(request.field("host")?.string == "localhost:6001")
            #expect(request.field("absent") == nil)
            #expect(request.field("connection", contains: "upgrade"))
            #expect(request.field("connection", contains: "keep-alive"))
            #expect(!request.field("connection", contains: "keep"))
            #expect(request.onlyField("upgrade")?.string == "websocket")
            #expect(request.onlyField("absent") == nil)
            #expect(request.bearerToken == nil)
        }
    }

    @Test(
        arguments: [
            ("Bearer abc.def", "abc.def"), ("bearer  x ", "x"), ("Bearer ", nil), ("Basic x", nil), ("Bearerx", nil),
        ] as [(String, String?)])
    func readsBearerTokens(value: String, token: String?) throws {
        let text = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: \(value)\r\n\r\n"
        try withMutableBytes(Array(text.utf8)) { buffer throws(HTTPError) in
            var parser = RequestParser()
            #expect(try parser.parse(buffer)?.bearerToken?.string == token)
        }
    }

    /// Where the target names a host, it is the one that counts.
    @Test(arguments: [
        ("/metrics", "127.0.0.1:9601", "127.0.0.1:9601", true), ("/metrics", "LOCALHOST", "LOCALHOST", true),
        ("/metrics", "[::1]:1", "[::1]:1", true), ("/metrics", "127.0.0.1.example", "127.0.0.1.example", false),
        ("/metrics", "127.0.0.11:9601", "127.0.0.11:9601", true), ("/metrics", "127.example:1", "127.example:1", false),
        ("http://evil.example/metrics?a=/b", "127.0.0.1", "evil.example", false),
        ("http://evil.example:80/", "127.0.0.1", "evil.example:80", false),
        ("https://127.0.0.1:1/a//b", "evil.example", "127.0.0.1:1", true),
        ("http://127.0.0.1@evil.example/", "127.0.0.1", "127.0.0.1@evil.example", false),
        ("//127.0.0.1/metrics", "evil.example", "evil.example", false),
    ]) func theTargetNamesTheHost(target: String, field: String, host: String, isLoopback: Bool) throws {
        let text = "GET \(target) HTTP/1.1\r\nHost: \(field)\r\n\r\n"
        try withMutableBytes(Array(text.utf8)) { buffer throws(HTTPError) in
            var parser = RequestParser()
            let request = try parser.parse(buffer)
            #expect(request?.host?.string == host && request?.namesLoopback == isLoopback)
        }
    }

    @Test func credentialsComeOnce() {
        for second in ["authorization: Bearer b", "Authorization: Bearer a"] {
            #expect(
                failure("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\n\(second)\r\n\r\n")
                    == .repeatedAuthorization)
        }
    }

    @Test func asksForContinueOnce() throws {
        let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
        try withMutableBytes(Array((head + "ab").utf8)) { buffer throws(HTTPError) in
            var parser = RequestParser()
            #expect(parser.isIdle)
            let first = try parser.parse(UnsafeMutableRawBufferPointer(rebasing: buffer[..<head.utf8.count]))
            #expect(first == nil)
            #expect(!parser.isIdle)
            let asks = (parser.takeContinue(), parser.takeContinue())
            #expect(asks == (true, false))
            #expect(try parser.parse(buffer)?.body.string == "ab")
            #expect(parser.isIdle)
        }
    }
}
