import Foundation
import Glibc
import Reactor

/// A backend that receives webhooks on its own threads: each request is passed to the test, which decides the answer.
package final class Receiver: @unchecked Sendable {
    /// A received request.
    package struct Request: Sendable {
        package let head: String
        package let body: String
        /// The index of its connection at the receiver, from 0.
        package let connection: Int

        /// A header field, by its name in lower case.
        package func field(_ name: String) -> String? {
            for line in head.components(separatedBy: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                if parts.count == 2, parts[0].lowercased() == name {
                    return parts[1].trimmingCharacters(in: .whitespaces)
                }
            }
            return nil
        }
    }

    /// How the receiver reacts to a request.
    package enum Reply: Sendable {
        case status(Int, fields: String = "", body: [UInt8] = [])
        /// Sends these bytes, then closes the connection.
        case raw([UInt8])
        /// Sends the first bytes, then repeats the others until the client closes.
        case unending([UInt8], [UInt8])
        /// Sends nothing until the client closes.
        case silence
    }

    /// Its port on 127.0.0.1.
    package let port: UInt16
    private let listener: Int32
    private let tls: TLSServer?
    private let reply: @Sendable (Request) -> Reply
    private let condition = NSCondition()
    private var requests: [Request] = []
    private var connections = 0

    /// - Parameter reply: called on a connection's thread.
    package init(tls: TLSServer? = nil, reply: @escaping @Sendable (Request) -> Reply = { _ in .status(200) }) throws {
        self.tls = tls
        self.reply = reply
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listener
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(descriptor, $0, length)
                _ = listen(descriptor, 64)
                getsockname(descriptor, $0, &length)
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        Foundation.Thread.detachNewThread { [weak self] in
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else { break }
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                guard let self else {
                    close(connection)
                    break
                }
                let number = self.condition.withLock { () -> Int in
                    self.connections += 1
                    return self.connections - 1
                }
                Foundation.Thread.detachNewThread { self.serve(connection, number) }
            }
            // Closed by the accepting thread, or the number might already belong to another at the next accept.
            close(descriptor)
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
    }

    /// Its URL.
    package func url(_ path: String = "/hook", host: String = "127.0.0.1") -> String {
        "\(tls == nil ? "http" : "https")://\(host):\(port)\(path)"
    }

    /// Waits up to a minute for `count` requests, and returns all received.
    @discardableResult package func wait(for count: Int) -> [Request] {
        let end = Date(timeIntervalSinceNow: 60)
        return condition.withLock {
            while requests.count < count, condition.wait(until: end) {}
            return requests
        }
    }

    /// All requests received.
    package var seen: [Request] { condition.withLock { requests } }
    /// Connections accepted.
    package var connectionCount: Int { condition.withLock { connections } }

    private func serve(_ descriptor: Int32, _ number: Int) {
        defer { close(descriptor) }
        guard let stream = try? Stream(descriptor, tls) else { return }
        while let request = stream.request(number) {
            condition.withLock {
                requests.append(request)
                condition.broadcast()
            }
            switch reply(request) {
            case .status(let status, let fields, let body):
                let head = "HTTP/1.1 \(status) X\r\nContent-Length: \(body.count)\r\n\(fields)\r\n"
                guard stream.send(Array(head.utf8) + body) else { return }
            case .raw(let bytes):
                _ = stream.send(bytes)
                return
            case .unending(let first, let others):
                guard stream.send(first) else { return }
                while stream.send(others) {}
                return
            case .silence:
                while stream.fill() {}
                return
            }
        }
    }
}

/// A connection's bytes, with or without TLS.
private final class Stream {
    private let descriptor: Int32
    private let wire: TLSWire?
    private let tls: TLSSession?
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 8)
    private var buffer: [UInt8] = []

    init(_ descriptor: Int32, _ server: TLSServer?) throws {
        self.descriptor = descriptor
        if let server {
            let wire = try TLSWire()
            self.wire = wire
            tls = try server.session(on: wire)
        } else {
            (wire, tls) = (nil, nil)
        }
    }

    deinit {
        room.deallocate()
    }

    /// The next request; nil if the connection ends before it is complete.
    func request(_ connection: Int) -> Receiver.Request? {
        while true {
            if let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) {
                let head = String(decoding: buffer[..<end.lowerBound], as: UTF8.self)
                let request = Receiver.Request(head: head, body: "", connection: connection)
                let length = request.field("content-length").flatMap { Int($0) } ?? 0
                if buffer.count >= end.upperBound + length {
                    let body = String(decoding: buffer[end.upperBound..<end.upperBound + length], as: UTF8.self)
                    buffer.removeFirst(end.upperBound + length)
                    return Receiver.Request(head: head, body: body, connection: connection)
                }
            }
            guard fill() else { return nil }
        }
    }

    /// Reads more; false at the end.
    func fill() -> Bool {
        guard let tls else {
            let count = recv(descriptor, room.baseAddress, room.count, 0)
            guard count > 0 else { return false }
            buffer += room[..<count]
            return true
        }
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&entry, 1, 120_000) == 1 else { return false }
        switch tls.receive(descriptor, into: room) {
        case .bytes(let count): buffer += room[..<count]
        case .wouldBlock: break
        case .endOfStream, .failed: return false
        }
        return !tls.hasEnded
    }

    func send(_ bytes: [UInt8]) -> Bool {
        guard let tls else {
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return false }
                sent += count
            }
            return true
        }
        return bytes.withUnsafeBytes { tls.seal($0) } && tls.send(descriptor) == .all
    }
}
