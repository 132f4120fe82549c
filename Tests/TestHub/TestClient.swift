import Bytes
import Foundation
import Glibc
import HTTP
import WebSocket

/// A test client with one connection. Reads time out after half a minute.
///
/// It blocks threads of its own: the tests' pool has few, which also verify the hub's tokens.
package actor TestClient {
    package nonisolated let descriptor: Int32
    private var buffer: [UInt8] = []
    private var reader = MessageReader(role: .client)
    /// Decompresses received messages if the test has offered that; otherwise a compressed message is an error.
    private var inflater: Inflater?
    /// Compressed messages received.
    package var compressedCount: Int { inflater?.tally.messages ?? 0 }

    package enum Received: Equatable {
        case text(String)
        case ping
        case pong(String)
        case close(UInt16?)
        case end
    }

    package struct Failure: Error {
        package let reason: String

        package init(reason: String) {
            self.reason = reason
        }
    }

    /// - Parameter receiveBuffer: bytes that the kernel keeps unread. Set before connecting: a window that shrinks later
    ///   makes the peer's acknowledgements fall outside of it.
    package init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var patience = timeval(tv_sec: 180, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        if var receiveBuffer { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4) }
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw Failure(reason: "connect: \(errno)") }
    }

    /// A connection over IPv6 loopback.
    package init(portOfIPv6 port: UInt16) throws {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        address.sin6_addr = in6addr_loopback
        descriptor = socket(AF_INET6, Int32(SOCK_STREAM.rawValue), 0)
        try Self.reach(&address, from: descriptor)
    }

    /// A connection to a Unix-domain socket.
    package init(path: String) throws {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        try Self.reach(&address, from: descriptor)
    }

    private static func reach<Address>(_ address: inout Address, from descriptor: Int32) throws {
        var patience = timeval(tv_sec: 180, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<Address>.size))
            }
        }
        guard code == 0 else { throw Failure(reason: "connect: \(errno)") }
    }

    deinit {
        close(descriptor)
    }

    /// An upgraded WebSocket, with its first message read.
    package static func opened(
        port: UInt16, path: String = "/app/key?protocol=7"
    ) async throws -> (TestClient, socketID: String) {
        let client = try TestClient(port: port)
        try await client.upgrade(path)
        guard case .text(let hello) = try await client.next(),
            let start = hello.range(of: #"\"socket_id\":\""#)?.upperBound
        else { throw Failure(reason: "no connection_established") }
        return (client, String(hello[start...].prefix { $0 != "\\" }))
    }

    /// Upgrades, and returns the response's head. `fields`: further lines of the request; one may offer compression.
    @discardableResult
    package func upgrade(_ path: String = "/app/key?protocol=7", fields: String = "") async throws -> String {
        if fields.contains("permessage-deflate") { inflater = Inflater() }
        try await sendRaw(
            "GET \(path) HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n")
        let head = try await readHead()
        guard head.hasPrefix("HTTP/1.1 101 "), head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") else {
            throw Failure(reason: head)
        }
        return head
    }

    /// Closes with a reset: a client that only ends its sending side may still wait for an answer.
    package func resetAtTheEnd() {
        var abrupt = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &abrupt, socklen_t(MemoryLayout<linger>.size))
    }

    /// Ends its sending side.
    package nonisolated func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    package func sendRaw(_ text: String) async throws { try await sendRaw(Array(text.utf8)) }

    package func sendRaw(_ bytes: [UInt8]) async throws {
        let descriptor = descriptor
        let code = await Self.blocking { () -> Int32 in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return errno }
                rest = rest.dropFirst(count)
            }
            return 0
        }
        guard code == 0 else { throw Failure(reason: "send: \(code)") }
    }

    /// Sends every byte in a call of its own.
    package func sendByteByByte(_ bytes: [UInt8]) async throws {
        let descriptor = descriptor
        let code = await Self.blocking { () -> Int32 in
            var on: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
            for byte in bytes {
                var byte = byte
                guard Glibc.send(descriptor, &byte, 1, Int32(MSG_NOSIGNAL)) == 1 else { return errno }
            }
            return 0
        }
        guard code == 0 else { throw Failure(reason: "send: \(code)") }
    }

    /// Sends the bytes repeatedly, reading nothing, until the peer has closed the socket.
    package func sendUntilRefused(_ bytes: [UInt8]) async {
        let descriptor = descriptor
        await Self.blocking {
            while true {
                let count = bytes.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return }
            }
        }
    }

    private static func blocking<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: body()) }
        }
    }

    package func send(_ text: String) async throws { try await send(Opcode.text, Array(text.utf8)) }

    package func send(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true) async throws {
        var writer = ByteWriter()
        payload.withUnsafeBytes {
            FrameWriter.append(masked: opcode, $0, mask: 0x1234_5678, isFinal: isFinal, to: &writer)
        }
        try await sendRaw(writer.array)
    }

    /// Sends a message with that compressed payload, in frames that end at the given positions.
    package func send(compressed payload: [UInt8], _ opcode: UInt8 = Opcode.text, splits: [Int] = []) async throws {
        var bytes: [UInt8] = []
        var start = 0
        for end in splits + [payload.count] {
            var writer = ByteWriter()
            payload[start..<end].withUnsafeBytes {
                FrameWriter.append(
                    masked: start == 0 ? opcode : Opcode.continuation, $0, mask: 0x8765_4321,
                    isFinal: end == payload.count, to: &writer)
            }
            if start == 0 { writer.withUnsafeMutableBytes { $0[0] |= FrameWriter.compressedBit } }
            bytes += writer.array
            start = end
        }
        try await sendRaw(bytes)
    }

    /// The next message, or the end of the stream.
    package func next() async throws -> Received {
        while true {
            if let event = try parse() { return event }
            guard try await fill() else { return .end }
        }
    }

    /// The next HTTP response, head and body.
    package func response() async throws -> (head: String, body: String) {
        let head = try await readHead()
        let marker = "Content-Length: "
        guard let start = head.range(of: marker)?.upperBound, let length = Int(head[start...].prefix { $0.isNumber })
        else { return (head, "") }
        while buffer.count < length { guard try await fill() else { break } }
        let body = String(decoding: buffer.prefix(length), as: UTF8.self)
        buffer.removeFirst(min(length, buffer.count))
        return (head, body)
    }

    /// What comes, up to the end of `mark`; nil if the stream ends before.
    package func text(through mark: String) async throws -> String? {
        while true {
            let end = Data(buffer).range(of: Data(mark.utf8))?.upperBound
            if let end {
                let text = String(decoding: buffer.prefix(end), as: UTF8.self)
                buffer.removeFirst(end)
                return text
            }
            guard try await fill() else { return nil }
        }
    }

    /// The head of the next HTTP response; the caller must read its body.
    package func readHeadOnly() async throws -> String { try await readHead() }

    /// Reads and discards that many bytes.
    package func discard(_ count: Int) async throws {
        var left = count
        while true {
            let taken = min(left, buffer.count)
            buffer.removeFirst(taken)
            left -= taken
            if left == 0 { return }
            guard try await fill() else { throw Failure(reason: "ended \(left) bytes early") }
        }
    }

    /// The next bytes of any kind; fewer at the end of the stream.
    package func read(_ count: Int) async throws -> [UInt8] {
        while buffer.count < count { guard try await fill() else { break } }
        let bytes = Array(buffer.prefix(count))
        buffer.removeFirst(bytes.count)
        return bytes
    }

    /// Waits for the end of the stream.
    package func readToEnd() async throws {
        while try await fill() {}
    }

    private func readHead() async throws -> String {
        while true {
            let text = String(decoding: buffer, as: UTF8.self)
            if let end = text.range(of: "\r\n\r\n")?.upperBound {
                let head = String(text[..<end])
                buffer.removeFirst(head.utf8.count)
                return head
            }
            guard try await fill() else { throw Failure(reason: "ended within a head: \(text)") }
        }
    }

    private func fill() async throws -> Bool {
        let descriptor = descriptor
        let (chunk, code) = await Self.blocking { () -> ([UInt8], Int32) in
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &chunk, chunk.count, 0)
            return (Array(chunk[0..<max(count, 0)]), count < 0 ? errno : 0)
        }
        if code == EAGAIN { throw Failure(reason: "nothing came") }
        buffer.append(contentsOf: chunk)
        return !chunk.isEmpty
    }

    private func parse() throws -> Received? {
        var consumed = 0
        var result: Received?
        var limits = MessageLimits()
        limits.messageBytes = 1 << 24
        try buffer.withUnsafeMutableBytes { bytes in
            guard let event = try reader.read(bytes, consumed: &consumed, limits: limits, inflater: inflater)
            else { return }
            switch event {
            case .text(let payload), .binary(let payload):
                result = .text(payload.withUnsafeBytes(in: bytes) { String(decoding: $0, as: UTF8.self) })
            case .ping: result = .ping
            case .pong(let payload):
                result = .pong(payload.withUnsafeBytes(in: bytes) { String(decoding: $0, as: UTF8.self) })
            case .close(let code): result = .close(code?.rawValue)
            }
        }
        buffer.removeFirst(consumed)
        return result
    }
}
