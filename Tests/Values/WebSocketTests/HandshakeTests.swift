import Bytes
import HTTP
import TestSupport
import Testing
import WebSocket

@Suite(.timeLimit(.minutes(15))) struct HandshakeTests {
    private static let fields: [(String, String)] = [
        ("Host", "h"), ("Upgrade", "websocket"), ("Connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", "chat, pusher-channels-protocol-7"),
    ]

    private func answer(
        _ requestLine: String = "GET /app/key HTTP/1.1", replacing name: String = "", with value: String? = nil,
        subprotocol: StaticString? = nil
    ) throws -> String {
        var text = requestLine + "\r\n"
        for field in HandshakeTests.fields {
            if field.0 != name {
                text += "\(field.0): \(field.1)\r\n"
            } else if let value {
                text += "\(name): \(value)\r\n"
            }
        }
        return try withMutableBytes(Array((text + "\r\n").utf8)) { buffer throws(HTTPError) in
            var parser = RequestParser()
            var writer = ByteWriter()
            guard let request = try parser.parse(buffer) else { return "incomplete" }
            do throws(HandshakeError) {
                try Handshake(request).accept(subprotocol: subprotocol, to: &writer)
            } catch {
                Handshake.refuse(error, to: &writer)
            }
            return writer.string
        }
    }

    /// RFC 6455 §1.3.
    @Test func accepts() throws {
        let expected = """
            HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n
            """
        #expect(try answer() == expected + "\r\n")
        #expect(try answer(replacing: "Upgrade", with: "WebSocket, other") == expected + "\r\n")
        #expect(
            try answer(subprotocol: "pusher-channels-protocol-7")
                == expected + "Sec-WebSocket-Protocol: pusher-channels-protocol-7\r\n\r\n")
        #expect(try answer(subprotocol: "pusher") == expected + "\r\n")
    }

    @Test(
        arguments: [
            ("Upgrade", nil, 426), ("Upgrade", "h2c", 426), ("Connection", "close", 426),
            ("Sec-WebSocket-Version", nil, 426),
            ("Sec-WebSocket-Version", "8", 426), ("Sec-WebSocket-Key", nil, 400), ("Sec-WebSocket-Key", "", 400),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZR==", 400),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ", 400),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZXMu", 400),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", 400),
        ] as [(String, String?, Int)]) func refuses(name: String, value: String?, status: Int) throws
    {
        let text = try answer(replacing: name, with: value)
        #expect(text.hasPrefix("HTTP/1.1 \(status) "))
        #expect(text.contains("Connection: close\r\n"))
        #expect(text.contains("Sec-WebSocket-Version: 13\r\n") == (status == 426))
    }

    @Test func refusesOtherMethodsAndVersions() throws {
        #expect(try answer("POST /app/key HTTP/1.1").hasPrefix("HTTP/1.1 405 "))
        #expect(try answer("GET /app/key HTTP/1.0").hasPrefix("HTTP/1.1 426 "))
    }

    @Test func clientAndServerAgree() throws {
        var random = SeededRandom()
        for _ in 0..<50 {
            let client = ClientHandshake(random: (random.next(), random.next()))
            var request = ByteWriter()
            client.append(host: "h:1", target: "/app/k?protocol=7", to: &request) {
                $0.append(field: "Authorization", "Bearer t")
            }
            let response = try withMutableBytes(request.array) { buffer throws(HTTPError) in
                var parser = RequestParser()
                var writer = ByteWriter()
                guard let request = try parser.parse(buffer) else { return writer.array }
                #expect(request.bearerToken?.string == "t")
                do throws(HandshakeError) { try Handshake(request).accept(to: &writer) } catch {
                    Issue.record("\(error)")
                }
                return writer.array
            }
            try withBytes(response) { bytes throws(HTTPError) in
                let head = try ResponseHead.parse(bytes)
                #expect(head.map { client.isAccepted(by: $0) } == true, "seed \(random.seed)")
                let other = ClientHandshake(random: (random.next(), random.next()))
                #expect(head.map { other.isAccepted(by: $0) } == false, "seed \(random.seed)")
            }
        }
    }
}
