import Bytes
import Glibc
import Reactor

/// A connection that makes a server send. The requests of one turn of the loop leave in one call. Where a server of Pusher's
/// API closes it behind each answer, as soketi does, the next request goes by another.
final class Trigger: EventSource {
    /// How a request names its channel.
    enum Form {
        /// Four bytes, after a greeting: loadtest/Core and loadtest/Limit.
        case records
        /// The path of a POST whose body is the message: Nchan.
        case posts(body: String)
        /// The body of a signed POST: Pusher's HTTP API.
        case publishes(SignedPublish)
    }

    /// Whether the server has closed the connection.
    private(set) var isBroken = false
    private let form: Form
    private let address: LoadAddress
    private var socket: Int32
    private let loop: EventLoop
    private let host: String
    /// Whether the server closes it behind each answer: then each request has one of its own.
    private var closes = false
    private var isBusy = false
    /// Channels whose requests wait for the next connection.
    private var waiting = Fifo<Int>()
    private var unsent = ByteWriter(capacity: 4096)

    private static let connectMilliseconds: Int32 = 5000

    init(_ address: LoadAddress, _ form: Form, loop: EventLoop) throws {
        self.address = address
        self.form = form
        self.loop = loop
        host = address.text
        socket = try Self.connect(address)
        super.init()
        try loop.add(self, descriptor: socket, interest: .readable)
        if case .records = form { unsent.append("CONTROL\n") }
    }

    private static func connect(_ address: LoadAddress) throws -> Int32 {
        let socket = try address.connect(source: 0)
        var connecting = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
        guard poll(&connecting, 1, connectMilliseconds) == 1, Int32(connecting.revents) & POLLERR == 0 else {
            close(socket)
            throw LoadFailure("\(address.text): cannot be connected to")
        }
        return socket
    }

    private func connectAgain() {
        isBusy = false
        close(socket)
        socket = -1
        do {
            socket = try Self.connect(address)
            try loop.add(self, descriptor: socket, interest: .readable)
        } catch {
            isBroken = true
        }
    }

    deinit {
        close(socket)
    }

    /// Queues a request for one message on a channel, until `flush`.
    func send(on channel: Int) {
        guard !(closes && isBusy) else { return waiting.append(channel) }
        isBusy = true
        switch form {
        case .records:
            let number = UInt32(truncatingIfNeeded: channel).bigEndian
            withUnsafeBytes(of: number) { unsent.append($0) }
        case .posts(let body):
            unsent.append("POST /pub/")
            unsent.append(decimal: channel)
            unsent.append(" HTTP/1.1\r\nHost: ")
            unsent.append(utf8: host)
            unsent.append("\r\nContent-Length: ")
            unsent.append(decimal: body.utf8.count)
            unsent.append("\r\n\r\n")
            unsent.append(utf8: body)
        case .publishes(let publish): publish.append(channel, host: host, to: &unsent)
        }
    }

    /// Sends the queued requests as far as the server takes them; the rest leaves with the next call.
    func flush() {
        guard !unsent.isEmpty, !isBroken else { return }
        switch unsent.withUnsafeBytes({ Socket.send(socket, $0) }) {
        case .bytes(let count):
            guard count < unsent.count else { return unsent.removeAll() }
            var rest = ByteWriter(capacity: unsent.count)
            unsent.withUnsafeBytes { rest.append(UnsafeRawBufferPointer(rebasing: $0[count...])) }
            unsent = rest
        case .wouldBlock: break
        case .endOfStream, .failed: isBroken = true
        }
    }

    func drop() {
        loop.remove(self)
    }

    /// Discards the answers.
    override func ready(_ readiness: Readiness) {
        let result = withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 16) {
            Socket.receive(socket, into: $0)
        }
        switch result {
        case .bytes, .wouldBlock: break
        case .endOfStream:
            drop()
            guard case .publishes = form, unsent.isEmpty else {
                isBroken = true
                return
            }
            closes = true
            connectAgain()
            if let channel = waiting.popFirst() {
                send(on: channel)
                flush()
            }
        case .failed:
            isBroken = true
            drop()
        }
    }
}
