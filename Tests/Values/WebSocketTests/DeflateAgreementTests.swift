import Bytes
import HTTP
import TestSupport
import Testing
import WebSocket

/// Offers and answers (RFC 7692 §5, §7.1; RFC 6455 §9.1).
@Suite(.timeLimit(.minutes(15))) struct DeflateAgreementTests {
    private static let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

    enum Answer: Equatable {
        case refused(HandshakeError), plain
        case agreed(String, DeflateWindow)
    }

    /// The answer to a handshake with these `Sec-WebSocket-Extensions` fields.
    private func answer(_ fields: [String], compresses: Bool = true) throws -> Answer {
        var text = "GET /app/key HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        text += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        for field in fields { text += "Sec-WebSocket-Extensions: \(field)\r\n" }
        return try withMutableBytes(Array((text + "\r\n").utf8)) { buffer throws(HTTPError) in
            var parser = RequestParser()
            guard let request = try parser.parse(buffer) else { return .plain }
            var writer = ByteWriter()
            do throws(HandshakeError) {
                let handshake = try Handshake(request)
                handshake.accept(compresses: compresses, to: &writer)
                let name = "Sec-WebSocket-Extensions: "
                let lines = writer.string.split(separator: "\r\n").filter { $0.hasPrefix(name) }
                guard let line = lines.first, lines.count == 1, let window = handshake.deflate?.window else {
                    return .plain
                }
                return .agreed(String(line.dropFirst(name.count)), window)
            } catch {
                return .refused(error)
            }
        }
    }

    @Test(
        arguments: [
            ("permessage-deflate", "", .wide),
            // Chrome and Firefox; Safari.
            ("permessage-deflate; client_max_window_bits", "", .wide),
            ("permessage-deflate; client_max_window_bits=15; server_max_window_bits=15", "15", .wide),
            // The Python package websockets.
            ("permessage-deflate; server_max_window_bits=12; client_max_window_bits=12", "12", .wide),
            ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", "", .wide),
            ("permessage-deflate; client_max_window_bits=8", "", .wide),
            ("permessage-deflate; server_max_window_bits=11", "11", .narrow),
            ("permessage-deflate; server_max_window_bits=10", "10", .narrow),
            ("permessage-deflate; server_max_window_bits=9", "9", .narrow),
            // Quoted values are allowed (RFC 6455 §9.1), also with backslashes.
            (#"permessage-deflate; server_max_window_bits="10""#, "10", .narrow),
            (#"permessage-deflate;client_max_window_bits="\1\0""#, "", .wide),
            ("permessage-deflate;server_max_window_bits=9;client_max_window_bits", "9", .narrow),
            ("permessage-deflate ; server_max_window_bits = 13 ", "13", .wide),
            // The first acceptable offer; others do no harm.
            ("permessage-deflate; server_max_window_bits=10, permessage-deflate", "10", .narrow),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate", "", .wide),
            ("x-webkit-deflate-frame, permessage-deflate; client_max_window_bits", "", .wide),
            (#"bbf-usp-protocol; a="b"; c, permessage-deflate"#, "", .wide),
            ("permessage-deflate; mystery, permessage-deflate; server_max_window_bits=14", "14", .wide),
            (", ,permessage-deflate,", "", .wide),
        ] as [(String, String, DeflateWindow)])
    func isAgreedTo(offer: String, bits: String, window: DeflateWindow) throws {
        let expected = Self.agreed + (bits.isEmpty ? "" : "; server_max_window_bits=" + bits)
        #expect(try answer([offer]) == .agreed(expected, window))
        #expect(try answer(["other; x=1", offer]) == .agreed(expected, window))
        #expect(try answer([offer, "permessage-deflate; server_max_window_bits=9"]) == .agreed(expected, window))
        #expect(try answer([offer], compresses: false) == .plain)
    }

    @Test(arguments: [
        "", ",", "x", "permessage-bzip2", "perframe-deflate", "permessage-deflate2", "Permessage-Deflate",
        // zlib has no such window.
        "permessage-deflate; server_max_window_bits=8",
        // Invalid values.
        "permessage-deflate; server_max_window_bits", "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=16", "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits=09", "permessage-deflate; server_max_window_bits=0",
        "permessage-deflate; server_max_window_bits=1e1", "permessage-deflate; server_max_window_bits=-9",
        "permessage-deflate; server_max_window_bits=+9", "permessage-deflate; server_max_window_bits=100",
        "permessage-deflate; server_max_window_bits=99999999999999999999999",
        "permessage-deflate; client_max_window_bits=7", "permessage-deflate; client_max_window_bits=16",
        "permessage-deflate; client_max_window_bits=x", #"permessage-deflate; client_max_window_bits="008""#,
        "permessage-deflate; server_no_context_takeover=1", "permessage-deflate; client_no_context_takeover=true",
        #"permessage-deflate; client_no_context_takeover="x""#,
        // Repeated or unknown parameters.
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
        "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10",
        "permessage-deflate; mystery", "permessage-deflate; mystery=1",
        "permessage-deflate; SERVER_NO_CONTEXT_TAKEOVER",
    ]) func isDeclined(offer: String) throws {
        #expect(try answer([offer]) == .plain)
        #expect(try answer([offer, "permessage-deflate"]) == .agreed(Self.agreed, .wide))
    }

    @Test(arguments: [
        "permessage-deflate;", "permessage-deflate; ", "permessage-deflate;;", "; server_max_window_bits=10", ";",
        "permessage-deflate; =10", "permessage-deflate; server_max_window_bits=", "permessage-deflate; a=,x",
        "permessage-deflate server_max_window_bits", "permessage-deflate; a b", "permessage-deflate; a=b c",
        #"permessage-deflate; a=""#, #"permessage-deflate; a="""#, #"permessage-deflate; a="b"#,
        #"permessage-deflate; a="b c""#, #"permessage-deflate; a="b\"#, #"permessage-deflate; a="b\""#,
        #"permessage-deflate; a="b;c""#, #"permessage-deflate; a="b"c"#, #""permessage-deflate""#, "a=b", "a/b", "é",
        "permessage-deflate; a==b", "(x)", "permessage-deflate, x;", "permessage-deflate\t\tx",
    ]) func isMalformed(offer: String) throws {
        #expect(try answer([offer]) == .refused(.extensions))
        // Whatever else is offered, and whether or not compression is on.
        #expect(try answer(["permessage-deflate", offer]) == .refused(.extensions))
        #expect(try answer([offer, "permessage-deflate"], compresses: false) == .refused(.extensions))
        #expect(HandshakeError.extensions.status == .badRequest)
    }

    @Test func nothingIsAnsweredWhereNothingIsOffered() throws {
        #expect(try answer([]) == .plain)
    }

    /// Any offer has one of a few answers; never a trap.
    @Test func survivesMutation() throws {
        let corpus = [
            "permessage-deflate; client_max_window_bits, permessage-deflate; server_max_window_bits=\"1\\0\", x; y=z",
            "permessage-deflate;server_no_context_takeover;client_no_context_takeover;server_max_window_bits=9",
        ].map { Array($0.utf8) }
        for seed in 0..<3000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            var bytes = Mutation.apply(to: corpus[Int(seed) % 2], other: corpus[0], using: &random)
            bytes.removeAll { $0 < 0x20 && $0 != 0x09 || $0 >= 0x7F }
            let answer = try answer([String(decoding: bytes, as: UTF8.self)])
            guard case .agreed(let field, let window) = answer else { continue }
            #expect(field.hasPrefix(Self.agreed), "seed \(seed)")
            let bits = Int(field.dropFirst(Self.agreed.count + "; server_max_window_bits=".count))
            #expect((bits.map { $0 >= 12 } ?? true) == (window == .wide), "seed \(seed)")
        }
    }
}
