import Bytes
import Digests
import HTTP

/// Why an upgrade is refused.
package enum HandshakeError: Error, Equatable, Sendable {
    /// The request is no upgrade to WebSocket.
    case notAnUpgrade
    case method
    /// The version is not 13: answered 426 with our version (RFC 6455 §4.2.2).
    case version
    /// No key, several keys, or not 16 bytes in Base64.
    case key
    /// The offered extensions are malformed (RFC 6455 §9.1).
    case extensions

    /// The status of the answer.
    package var status: Status {
        switch self {
        case .notAnUpgrade, .version: .upgradeRequired
        case .method: .methodNotAllowed
        case .key, .extensions: .badRequest
        }
    }

    /// A line for the body of the answer.
    package var message: StaticString {
        switch self {
        case .notAnUpgrade: "This address speaks WebSocket."
        case .method: "A WebSocket begins with GET."
        case .version: "The WebSocket version must be 13."
        case .key: "The Sec-WebSocket-Key field is missing or malformed."
        case .extensions: "The Sec-WebSocket-Extensions field is malformed."
        }
    }
}

/// A server's handshake (RFC 6455 §4.2): a valid request, ready to be answered.
package struct Handshake {
    private let key: UnsafeRawBufferPointer
    /// The first list of offered subprotocols, in the request's buffer.
    private let subprotocols: UnsafeRawBufferPointer?
    /// The compression to agree to; nil when the client offers none that we know.
    package let deflate: DeflateAgreement?

    /// Checks `request`. The caller checks its path and query.
    package init(_ request: borrowing ParsedRequest) throws(HandshakeError) {
        guard request.field("upgrade", contains: "websocket"), request.field("connection", contains: "upgrade"),
            request.minorVersion > 0
        else { throw .notAnUpgrade }
        guard request.method == .get, request.body.count == 0 else { throw .method }
        guard let version = request.field("sec-websocket-version"), version.equals("13") else { throw .version }
        guard let key = request.onlyField("sec-websocket-key"), key.count == 24, Base64.decodedCount(key) == 16 else {
            throw .key
        }
        deflate = try DeflateAgreement(request)
        self.key = key
        subprotocols = request.field("sec-websocket-protocol")
    }

    /// True when the client offers `subprotocol` (compared exactly, RFC 6455 §11.3.4).
    package func offers(_ subprotocol: StaticString) -> Bool {
        guard let subprotocols else { return false }
        var list = ListReader(subprotocols)
        while let member = list.next() {
            if member.equals(subprotocol) { return true }
        }
        return false
    }

    /// Appends the 101 response. `subprotocol` is included only if the client offers it; `compresses` agrees to `deflate`.
    package func accept(subprotocol: StaticString? = nil, compresses: Bool = false, to writer: inout ByteWriter) {
        writer.append("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        writer.append("Sec-WebSocket-Accept: ")
        AcceptKey.append(for: key, to: &writer)
        writer.append("\r\n")
        if let subprotocol, offers(subprotocol) { writer.append(field: "Sec-WebSocket-Protocol", subprotocol) }
        if compresses { deflate?.append(to: &writer) }
        writer.append("\r\n")
    }

    /// Appends the answer to a request that `init` refused. Close the connection after it.
    package static func refuse(_ error: HandshakeError, to writer: inout ByteWriter) {
        writer.append(
            response: error.status, contentType: "text/plain; charset=utf-8", keepsAlive: false,
            body: error.message.bytes
        ) { writer in
            switch error {
            case .method: writer.append(field: "Allow", "GET")
            case .notAnUpgrade, .version:
                writer.append(field: "Upgrade", "websocket")
                writer.append(field: "Sec-WebSocket-Version", "13")
            case .key, .extensions: break
            }
        }
    }
}

/// The proof that a server understood the handshake: Base64 of the SHA-1 of the key and a fixed text (RFC 6455 §4.2.2).
package enum AcceptKey {
    /// Appends the 28 characters for `key`, given as it stands in the request.
    package static func append(for key: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        SHA1(key, ("258EAFA5-E914-47DA-95CA-C5AB0DC85B11" as StaticString).bytes).withUnsafeBytes { digest in
            Base64.append(digest, to: &writer)
        }
    }
}

/// A client's handshake (RFC 6455 §4.1), for our own tools.
package struct ClientHandshake: Sendable {
    /// The key to send: Base64 of 16 random bytes.
    private let key: String

    /// The caller draws the 16 random bytes.
    package init(random: (UInt64, UInt64)) {
        key = withUnsafeBytes(of: random) { Base64.encode($0) }
    }

    /// Appends the request for `target` (path and query) of `host`; `fields` appends further fields.
    package func append(
        host: String, target: String, to writer: inout ByteWriter, fields: (inout ByteWriter) -> Void = { _ in }
    ) {
        writer.append("GET ")
        writer.append(utf8: target)
        writer.append(" HTTP/1.1\r\n")
        writer.append(field: "Host", host)
        writer.append("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n")
        writer.append(field: "Sec-WebSocket-Key", key)
        fields(&writer)
        writer.append("\r\n")
    }

    /// True when `response` accepts this handshake: its accept key must match.
    package func isAccepted(by response: ResponseHead) -> Bool {
        guard response.statusCode == 101, response.field("upgrade", contains: "websocket"),
            response.field("connection", contains: "upgrade"), let accept = response.field("sec-websocket-accept")
        else { return false }
        var key = key
        var writer = ByteWriter(capacity: 32)
        key.withUTF8 { AcceptKey.append(for: UnsafeRawBufferPointer($0), to: &writer) }
        return writer.withUnsafeBytes { $0.equals(accept) }
    }
}
