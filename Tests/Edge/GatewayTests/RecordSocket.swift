import Clock
import Glibc

@testable import Gateway
@testable import Reactor

/// A client's socket that keeps call boundaries: a record is exactly what one call of the server sent. No TCP socket shows
/// that.
final class RecordSocket {
    private let descriptor: Int32

    /// A connection that the gateway's first loop takes for a newly accepted one.
    init(_ gateway: Gateway) throws {
        var pair: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else {
            throw RawSocket.Failure(reason: "socketpair: \(errno)")
        }
        descriptor = pair[0]
        _ = fcntl(pair[1], F_SETFL, O_NONBLOCK)
        var patience = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let address = PeerAddress.unix
        guard case .welcome = gateway.context.admission.arrived(from: address, at: Instant.read()) else {
            throw RawSocket.Failure(reason: "not welcome")
        }
        gateway.context.mailboxes[0].post(.accepted(pair[1], address, nil, usesTLS: false))
    }

    deinit {
        close(descriptor)
    }

    /// Sends the upgrade as one record, and reads the output of the gateway's first call.
    func upgrade(path: String, fields: String = "") throws -> [UInt8] {
        send(
            Array(
                ("GET \(path) HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n").utf8)
        )
        return try record()
    }

    func send(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    }

    /// The output of the gateway's next call.
    func record() throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { throw RawSocket.Failure(reason: "nothing came: \(count), \(errno)") }
        return Array(buffer[..<count])
    }
}
