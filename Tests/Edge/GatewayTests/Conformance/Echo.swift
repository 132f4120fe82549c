import Bytes
import Gateway
import TestHub
import TestSupport
import WebSocket

/// A client's frame, byte for byte, including invalid ones (RFC 6455 §5.2).
struct RawFrame {
    var opcode: UInt8
    var payload: [UInt8]
    var isFinal = true
    var reserved: UInt8 = 0
    var mask: [UInt8]? = [0x37, 0xFA, 0x21, 0x3D]
    /// Bytes of the length field; nil for the fewest.
    var lengthBytes: Int?

    static func text(_ text: String) -> RawFrame { RawFrame(opcode: 1, payload: Array(text.utf8)) }
    static func text(_ bytes: [UInt8]) -> RawFrame { RawFrame(opcode: 1, payload: bytes) }
    static func binary(_ bytes: [UInt8]) -> RawFrame { RawFrame(opcode: 2, payload: bytes) }
    static func more(_ text: String) -> RawFrame { RawFrame(opcode: 0, payload: Array(text.utf8)) }
    static func more(_ bytes: [UInt8]) -> RawFrame { RawFrame(opcode: 0, payload: bytes) }
    static func ping(_ text: String) -> RawFrame { RawFrame(opcode: 9, payload: Array(text.utf8)) }
    static func pong(_ text: String) -> RawFrame { RawFrame(opcode: 10, payload: Array(text.utf8)) }
    static func close(_ code: UInt16, _ reason: [UInt8] = []) -> RawFrame {
        RawFrame(opcode: 8, payload: [UInt8(code >> 8), UInt8(code & 0xFF)] + reason)
    }

    /// This frame as a fragment that others follow.
    var open: RawFrame {
        var frame = self
        frame.isFinal = false
        return frame
    }

    func reserved(_ bits: UInt8) -> RawFrame {
        var frame = self
        frame.reserved = bits
        return frame
    }

    var bytes: [UInt8] {
        let count = payload.count
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
        let masked: UInt8 = mask == nil ? 0 : 0x80
        switch lengthBytes ?? (count < 126 ? 1 : count < 65_536 ? 2 : 8) {
        case 1: bytes.append(masked | UInt8(count))
        case 2: bytes += [masked | 126, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
        default: bytes += [masked | 127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) }
        }
        guard let mask else { return bytes + payload }
        guard mask != [0, 0, 0, 0] else { return bytes + mask + payload }
        return bytes + mask + payload.enumerated().map { $1 ^ mask[$0 & 3] }
    }
}

/// A server's output frame by frame, read without the product's own reader.
enum Answer: Equatable, CustomStringConvertible {
    case text([UInt8]), binary([UInt8]), pong([UInt8]), close(UInt16?)
    case end
    /// Output that no server should send here.
    case wrong(String)

    static func text(_ text: String) -> Answer { .text(Array(text.utf8)) }
    static func pong(_ text: String) -> Answer { .pong(Array(text.utf8)) }

    var description: String {
        switch self {
        case .text(let bytes):
            "text(\(bytes.count): \(String(decoding: bytes.prefix(40), as: UTF8.self)))"
        case .binary(let bytes): "binary(\(bytes.count): \(bytes.prefix(40)))"
        case .pong(let bytes): "pong(\(bytes))"
        case .close(let code): "close(\(code.map(String.init) ?? "no code"))"
        case .end: "end"
        case .wrong(let what): "wrong(\(what))"
        }
    }
}

/// A WebSocket, by default to the echo.
final class EchoClient {
    let socket: RawSocket
    let responseHead: String
    /// The server's window if compression was agreed: its frames may be compressed with at most that.
    var windowBits: Int32?
    private(set) var compressedCount = 0

    /// - Parameter fields: of the request, beside those of every upgrade; each with its line end.
    convenience init(port: UInt16, path: String = "/app/echo", fields: String = "") throws {
        try self.init(RawSocket(port: port), path: path, fields: fields)
    }

    init(_ socket: RawSocket, path: String, fields: String = "") throws {
        self.socket = socket
        socket.send(
            Array(
                ("GET \(path) HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n").utf8)
        )
        responseHead = try socket.readHead()
        guard responseHead.hasPrefix("HTTP/1.1 101 "), responseHead.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") else {
            throw RawSocket.Failure(reason: responseHead)
        }
    }

    /// The next frame. The server's frames are whole, unmasked and have the shortest length field.
    func next() throws -> Answer {
        guard let head = try socket.read(2) else { return .end }
        let (first, second) = (head[head.startIndex], head[head.startIndex + 1])
        let isCompressed = first & 0xF0 == 0xC0 && first & 8 == 0 && windowBits != nil
        guard first & 0xF0 == 0x80 || isCompressed, second & 0x80 == 0 else {
            return .wrong("header \(Array(head))")
        }
        var count = Int(second)
        if count >= 126 {
            guard let length = try socket.read(count == 126 ? 2 : 8) else { return .wrong("cut short") }
            let least = count == 126 ? 126 : 65_536
            count = length.reduce(0) { $0 << 8 | Int($1) }
            if count < least { return .wrong("length \(count) not minimal") }
        }
        guard var payload = try socket.read(count).map(Array.init) else { return .wrong("cut short") }
        if isCompressed, let windowBits {
            payload = try Flate.inflate(payload, windowBits: windowBits)
            compressedCount += 1
        }
        switch first & 0xF {
        case 1: return .text(payload)
        case 2: return .binary(payload)
        case 10: return .pong(payload)
        case 8 where count == 0: return .close(nil)
        case 8 where count > 1 && count < 126: return .close(UInt16(payload[0]) << 8 | UInt16(payload[1]))
        default: return .wrong("opcode \(first & 0xF), \(count) bytes")
        }
    }

    func rest() throws -> [Answer] {
        var answers: [Answer] = []
        while true {
            let answer = try next()
            answers.append(answer)
            if case .wrong = answer { return answers }
            if answer == .end { return answers }
        }
    }
}

/// The echo on the hub's transport, and the ways of cutting a client's frames.
final class Echo {
    private let fixture: GatewayFixture
    /// A second client of the same loop, to know when the loop has read another's bytes. Nil at the end.
    private var pacer: EchoClient?

    var port: UInt16 { fixture.port }

    /// One loop. By default messages of up to 16 MiB in any number of fragments; `change` adjusts that.
    init(_ change: (inout GatewayConfiguration) -> Void = { _ in }) async throws {
        fixture = try await GatewayFixture(loops: 1) { configuration in
            configuration.limits.messageBytesMax = 16 << 20
            configuration.limits.messageFragmentsMax = 1 << 17
            configuration.limits.messagesPerSecond = 0
            configuration.limits.controlFramesPerSecond = 0
            configuration.limits.sendQueueBytesMax = 64 << 20
            configuration.admission.exemptsLoopback = true
            // A busy machine lets clients of tests be silent for minutes.
            configuration.timeouts.activity = .seconds(3_600)
            configuration.timeouts.close = .seconds(60)
            configuration.timeouts.farewell = .seconds(60)
            configuration.responder = { payload, isText in
                FrameWriter.frame(isText ? Opcode.text : Opcode.binary, payload)
            }
            change(&configuration)
        }
        pacer = try EchoClient(port: fixture.port)
    }

    deinit {
        // Closed before the gateway, which waits for its clients.
        pacer = nil
    }

    func client(fields: String = "") throws -> EchoClient {
        try EchoClient(port: port, fields: fields)
    }

    /// Waits until the loop has handled everything sent before: it handles ready sockets in order.
    func settle() throws {
        pacer?.socket.send(RawFrame.ping("settled?").bytes)
        let answer = try pacer?.next()
        guard answer == .pong("settled?") else { throw RawSocket.Failure(reason: "not settled") }
    }

    /// The output for a new client that sends these pieces, each read before the next is sent.
    ///
    /// - Parameter windowBits: the window agreed for the offer in `fields`.
    func answers(
        to pieces: [ArraySlice<UInt8>], fields: String = "", windowBits: Int32? = nil
    ) throws -> [Answer] {
        let client = try client(fields: fields)
        client.windowBits = windowBits
        for piece in pieces.dropLast() where !piece.isEmpty {
            client.socket.send(Array(piece))
            try settle()
        }
        client.socket.send(Array(pieces.last ?? []))
        return try client.rest()
    }
}

/// How a stream of frames is cut before it is sent.
enum Cut: String, CaseIterable {
    case whole, frames, octets, everySplit

    /// The ways to send these frames, each a list of pieces.
    func pieces(of frames: [RawFrame]) -> [[ArraySlice<UInt8>]] {
        let bytes = frames.flatMap(\.bytes)
        switch self {
        case .whole: return [[bytes[...]]]
        case .frames: return [frames.map { $0.bytes[...] }]
        case .octets: return [bytes.indices.map { bytes[$0..<$0 + 1] }]
        case .everySplit: return bytes.indices.map { [bytes[..<$0], bytes[$0...]] }
        }
    }
}
