import Bytes
import HTTP
import WebSocket

/// Upgrades: what is accepted is answered with the proof for its key, and what is refused with a readable answer.
enum HandshakeProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        try withExactly(bytes) { buffer throws(Violation) in
            var parser = RequestParser()
            guard let request = try? parser.parse(buffer) else { return }
            switch Result(catching: { () throws(HandshakeError) in try Handshake(request) }) {
            case .success(let handshake): try checkAcceptance(of: handshake, request)
            case .failure(let error):
                let response = written { Handshake.refuse(error, to: &$0) }
                let head = try head(of: response)
                try hold(head.statusCode == error.status.code && !head.isUpgrade, "a refusal that is none")
            }
        }
    }

    private static func checkAcceptance(of handshake: Handshake, _ request: ParsedRequest) throws(Violation) {
        let key = try need(request.onlyField("sec-websocket-key"), "accepted without a key")
        let response = written { handshake.accept(subprotocol: "pusher", compresses: true, to: &$0) }
        let head = try head(of: response)
        try hold(head.statusCode == 101 && head.isUpgrade, "an acceptance that is none")
        try hold(head.consumed == response.count, "something behind the head of an acceptance")
        try hold(head.accept == written { AcceptKey.append(for: key, to: &$0) }, "the proof for another key")
        try hold(
            head.subprotocol == (handshake.offers("pusher") ? [UInt8]("pusher".utf8) : nil),
            "a subprotocol that was not offered, or none that was")
        let agreed = [UInt8]("permessage-deflate; server_no_context_takeover; client_no_context_takeover".utf8)
        try hold(
            head.extensions?.starts(with: agreed) == (handshake.deflate == nil ? nil : true),
            "an extension that was not offered, or none that was")
    }

    private struct Head {
        var statusCode: Int
        var consumed: Int
        var isUpgrade: Bool
        var accept: [UInt8]?
        var subprotocol: [UInt8]?
        var extensions: [UInt8]?
    }

    private static func head(of response: [UInt8]) throws(Violation) -> Head {
        let head = try succeed("our own response") { () throws(HTTPError) in
            try withView(response) { text throws(HTTPError) in
                try ResponseHead.parse(text).map { head in
                    Head(
                        statusCode: head.statusCode, consumed: head.consumed,
                        isUpgrade: head.field("connection", contains: "upgrade"),
                        accept: head.field("sec-websocket-accept").map { [UInt8]($0) },
                        subprotocol: head.field("sec-websocket-protocol").map { [UInt8]($0) },
                        extensions: head.field("sec-websocket-extensions").map { [UInt8]($0) })
                }
            }
        }
        return try need(head, "our own response has no end")
    }
}
