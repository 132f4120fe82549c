import Bytes
import Foundation
import Glibc
import TestHub
import WebSocket

/// Many connections that subscribe to one channel and then stop reading: bare sockets, so that thousands fit.
///
/// Blocks: for suites on threads of their own.
final class StalledReaders {
    private var descriptors: [Int32] = []

    /// - Throws: if one is not subscribed within half a minute.
    init(_ count: Int, port: UInt16, token: String, channel: String) throws {
        Self.raiseDescriptorLimit()
        for _ in 0..<count {
            descriptors.append(try Self.connect(port, Self.opening(token, channel)))
        }
        // Sent only now, so that all are handled at once.
        for descriptor in descriptors { try Self.read(descriptor, upTo: "subscription_succeeded") }
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }

    private static func opening(_ token: String, _ channel: String) -> [UInt8] {
        var writer = ByteWriter(capacity: 512)
        writer.append(
            utf8: "GET /app/key?protocol=7 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Authorization: Bearer \(token)\r\n\r\n")
        let subscribe = Array(#"{"event":"pusher:subscribe","data":{"channel":"\#(channel)"}}"#.utf8)
        subscribe.withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: 7, to: &writer) }
        return writer.array
    }

    private static func connect(_ port: UInt16, _ bytes: [UInt8]) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var room: Int32 = 4_096
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &room, 4)
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        let sent = code == 0 ? bytes.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, 0) } : -1
        guard sent == bytes.count else {
            close(descriptor)
            throw TestClient.Failure(reason: "connect and send: \(errno)")
        }
        return descriptor
    }

    private static func read(_ descriptor: Int32, upTo word: String) throws {
        var text = ""
        var chunk = [UInt8](repeating: 0, count: 2_048)
        while !text.contains(word) {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { throw TestClient.Failure(reason: "ended, or silent, after: \(text)") }
            text += String(decoding: chunk[..<count], as: UTF8.self)
        }
    }

    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
