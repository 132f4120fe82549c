import Foundation
import Glibc
import TestSupport

@testable import Operations

/// A client of the operations listener: one connection, blocking on its own threads. Reads time out after two minutes.
final class Visitor: Sendable {
    let descriptor: Int32

    struct Failure: Error {
        let reason: String
    }

    init(port: UInt16) throws {
        guard let connected = Loopback.connection(to: port) else {
            throw Failure(reason: "connect: \(errno)")
        }
        descriptor = connected
        var patience = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
    }

    func send(_ text: String) throws {
        let bytes = Array(text.utf8)
        guard Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw Failure(reason: "send: \(errno)")
        }
    }

    func rest() async throws -> String {
        let descriptor = descriptor
        let (bytes, code) = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var all: [UInt8] = []
                var chunk = [UInt8](repeating: 0, count: 65_536)
                while true {
                    let count = recv(descriptor, &chunk, chunk.count, 0)
                    guard count > 0 else { return continuation.resume(returning: (all, count < 0 ? errno : 0)) }
                    all += chunk[0..<count]
                }
            }
        }
        guard code == 0 || code == ECONNRESET else { throw Failure(reason: "recv: \(code)") }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// One request on its own connection: the answer's status, head and body.
    static func ask(
        _ port: UInt16, _ path: String, method: String = "GET", host: String = "127.0.0.1"
    ) async throws -> (status: Int, head: String, body: String) {
        let visitor = try Visitor(port: port)
        try visitor.send("\(method) \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
        let answer = try await visitor.rest()
        guard let end = answer.range(of: "\r\n\r\n") else { throw Failure(reason: "no head: \(answer)") }
        let head = String(answer[..<end.lowerBound])
        return (Int(head.split(separator: " ")[1]) ?? 0, head, String(answer[end.upperBound...]))
    }
}

extension OperationsServer {
    /// Serves while the body runs, and stops then, on a thread that may block.
    func serves(_ body: (UInt16) async throws -> Void) async throws {
        let result: Result<Void, any Error>
        do { result = .success(try await body(port)) } catch { result = .failure(error) }
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                self.stop()
                continuation.resume()
            }
        }
        try result.get()
    }
}
