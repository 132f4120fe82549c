import Bytes
import Clock
import Glibc
import RESP

/// A connection to a private server that blocks, for what tests do beside the client under test. One thread at a time.
package final class BlockingRedis {
    /// Why a call failed.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private let descriptor: Int32
    private var parser = RESPParser(bytesMax: 64 << 20)
    private var replies: [RESPValue] = []
    private var pushes = Fifo<[RESPValue]>()
    private var room = [UInt8](repeating: 0, count: 64 << 10)

    /// How long a reply may take.
    private static let patience = Duration.seconds(60)

    /// Connects to 127.0.0.1 and says `HELLO 3`, with a user and a password where both are given.
    package init(port: UInt16, user: String = "default", password: String? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw Failure(description: "no Redis at port \(port)") }
        let credentials = password.map { ["AUTH", user, $0] } ?? []
        let answer = try call((["HELLO", "3"] + credentials).map { Array($0.utf8) })
        if case .error(let error) = answer { throw Failure(description: "HELLO: \(error.code)") }
    }

    deinit {
        close(descriptor)
    }

    /// Sends a command that has no reply, such as `SSUBSCRIBE`, which pushes follow.
    package func tell(_ parts: [[UInt8]]) throws {
        var writer = ByteWriter()
        writer.append(command: parts)
        let bytes = writer.array
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(description: "the connection is gone") }
            sent += count
        }
    }

    /// Sends a command, and waits for its reply, which may be an error of Redis.
    package func call(_ parts: [[UInt8]]) throws -> RESPValue {
        try tell(parts)
        let end = Instant.read().advanced(by: Self.patience)
        while replies.isEmpty { guard try fill(until: end) else { throw Failure(description: "no reply in time") } }
        return replies.removeFirst()
    }

    /// Sends a command of texts, and waits for its reply.
    package func callText(_ parts: String...) throws -> RESPValue { try call(parts.map { Array($0.utf8) }) }

    /// The next push; nil where none comes in time, or the connection ends.
    package func nextPush(within patience: Duration) -> [RESPValue]? {
        let end = Instant.read().advanced(by: patience)
        while pushes.isEmpty { guard (try? fill(until: end)) == true else { return nil } }
        return pushes.popFirst()
    }

    /// Reads what comes; false where nothing has come in time.
    private func fill(until end: Instant) throws -> Bool {
        let left = end.duration(since: Instant.read())
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard left > .zero, poll(&entry, 1, Int32(clamping: left.millisecondsRoundedUp)) == 1 else {
            return left > .zero && errno == EINTR
        }
        let count = recv(descriptor, &room, room.count, 0)
        guard count > 0 else { throw Failure(description: "the connection is gone") }
        var values: [RESPValue] = []
        try room[..<count].withUnsafeBytes { try parser.read($0, &values) }
        for value in values {
            if case .push(let elements) = value { pushes.append(elements) } else { replies.append(value) }
        }
        return true
    }
}
