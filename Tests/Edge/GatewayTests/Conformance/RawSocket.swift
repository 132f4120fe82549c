import Foundation
import Glibc
import TestSupport

/// A blocking client socket with direct access to the bytes, for suites with threads of their own.
///
/// Reads time out after a minute.
final class RawSocket {
    private let descriptor: Int32
    /// Bytes received and not yet consumed.
    private var received: [UInt8] = []

    struct Failure: Error {
        let reason: String
    }

    init(port: UInt16) throws {
        guard let connected = Loopback.connection(to: port) else {
            throw Failure(reason: "connect: \(errno)")
        }
        descriptor = connected
        var patience = timeval(tv_sec: 180, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
    }

    deinit {
        close(descriptor)
    }

    /// Sends all. A peer that has closed takes nothing; its earlier output shows why.
    func send(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    func finishSending() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// The response's head, up to its empty line.
    func readHead() throws -> String {
        while true {
            let text = String(decoding: received, as: UTF8.self)
            if let end = text.range(of: "\r\n\r\n") {
                let head = String(text[..<end.upperBound])
                received.removeFirst(head.utf8.count)
                return head
            }
            guard try fill() else { throw Failure(reason: "ended within a head: \(text)") }
        }
    }

    /// The body of a response, whose length is in its head.
    func readResponse() throws -> String {
        let head = try readHead()
        guard let start = head.range(of: "Content-Length: ")?.upperBound,
            let length = Int(head[start...].prefix { $0.isNumber }), let body = try read(length)
        else { throw Failure(reason: "no body: \(head)") }
        return String(decoding: body, as: UTF8.self)
    }

    /// Exactly the next bytes; nil if the stream ends before them.
    func read(_ count: Int) throws -> ArraySlice<UInt8>? {
        while received.count < count { guard try fill() else { return nil } }
        defer { received.removeFirst(count) }
        return received[0..<count]
    }

    /// True if neither bytes nor the end have arrived; does not wait.
    var isQuiet: Bool {
        var byte: UInt8 = 0
        return received.isEmpty && recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) < 0
            && errno == EAGAIN
    }

    private func fill() throws -> Bool {
        let before = received.count
        received.reserveCapacity(before + 65_536)
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &chunk, chunk.count, 0)
        if count < 0, errno == EAGAIN { throw Failure(reason: "nothing came") }
        received.append(contentsOf: chunk[0..<max(0, count)])
        return count > 0
    }
}
