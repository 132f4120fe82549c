import Bytes
import Glibc
import HTTP
import Reactor
import WebSocket

/// A blocking client over TLS, for tests. Reads time out after half a minute.
final class SecureClient {
    let descriptor: Int32
    let tls: TLSSession
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 8)
    private var buffer: [UInt8] = []
    private var reader = MessageReader(role: .client)
    private var hasEnded = false

    struct Failure: Error {
        let reason: String
    }

    /// Connects, and begins the handshake.
    ///
    /// - Parameter receiveBuffer: bytes that the kernel keeps unread.
    init(
        port: UInt16, _ client: TLSClient, on wire: TLSWire, host: String? = "localhost", receiveBuffer: Int32? = nil,
        starts: Bool = true
    ) throws {
        descriptor = try Self.connect(port, receiveBuffer)
        tls = try client.session(host: host, on: wire)
        if starts { try start() }
    }

    deinit {
        close(descriptor)
        room.deallocate()
    }

    func start() throws {
        guard tls.start(descriptor) == .all else { throw Failure(reason: "the hello was not taken") }
    }

    static func connect(_ port: UInt16, _ receiveBuffer: Int32? = nil) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        if var receiveBuffer { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4) }
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else {
            close(descriptor)
            throw Failure(reason: "connect: \(errno)")
        }
        return descriptor
    }

    /// Waits until the handshake is complete; false if the hub has ended it.
    func handshake() throws -> Bool {
        while !tls.isEstablished {
            guard try fill() else { return false }
        }
        return true
    }

    func send(_ bytes: [UInt8]) throws {
        for start in stride(from: 0, to: bytes.count, by: TLSWire.recordBytes) {
            let part = bytes[start..<min(bytes.count, start + TLSWire.recordBytes)]
            guard part.withUnsafeBytes({ tls.seal($0) }), tls.send(descriptor) == .all else {
                throw Failure(reason: "not sent")
            }
        }
    }

    func send(text: String) throws {
        var writer = ByteWriter()
        Array(text.utf8).withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: 7, to: &writer) }
        try send(writer.array)
    }

    /// Opens the WebSocket, and reads its first message.
    func upgrade(_ path: String = "/app/key?protocol=7", fields: String = "") throws {
        try send(
            Array(
                ("GET \(path) HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n").utf8)
        )
        let head = try head()
        guard head.hasPrefix("HTTP/1.1 101 ") else { throw Failure(reason: head) }
        guard try text()?.contains("pusher:connection_established") == true else { throw Failure(reason: "no hello") }
    }

    func head() throws -> String {
        while true {
            if let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) {
                let head = String(decoding: buffer[..<end.upperBound], as: UTF8.self)
                buffer.removeFirst(end.upperBound)
                return head
            }
            guard try fill() else { throw Failure(reason: "ended within a head") }
        }
    }

    /// That many bytes; fewer at the end of the stream.
    func read(_ count: Int) throws -> [UInt8] {
        while buffer.count < count, !hasEnded { _ = try fill() }
        let bytes = Array(buffer.prefix(count))
        buffer.removeFirst(bytes.count)
        return bytes
    }

    /// The next text message; nil at the end of the stream, and for a close frame.
    func text() throws -> String? {
        var limits = MessageLimits()
        limits.messageBytes = 1 << 24
        while true {
            var consumed = 0
            var text: String?
            var isClosed = false
            try buffer.withUnsafeMutableBytes { bytes in
                while text == nil, !isClosed, let event = try reader.read(bytes, consumed: &consumed, limits: limits) {
                    switch event {
                    case .text(let payload):
                        text = payload.withUnsafeBytes(in: bytes) { String(decoding: $0, as: UTF8.self) }
                    case .close: isClosed = true
                    default: break
                    }
                }
            }
            buffer.removeFirst(consumed)
            if isClosed { return nil }
            if let text { return text }
            guard try fill() else { return nil }
        }
    }

    /// Reads more; false at the end of the stream, however it ended.
    func fill() throws -> Bool {
        if hasEnded { return false }
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&entry, 1, 180_000) == 1 else { throw Failure(reason: "nothing came") }
        switch tls.receive(descriptor, into: room) {
        case .bytes(let count): buffer += room[..<count]
        case .wouldBlock: break
        case .endOfStream, .failed: hasEnded = true
        }
        if tls.hasEnded { hasEnded = true }
        return !hasEnded || !buffer.isEmpty
    }
}
