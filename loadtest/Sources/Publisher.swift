import Bytes
import Glibc
import HTTP
import Reactor

/// A backend's keep-alive connection that repeats one request, pipelined.
final class Publisher: EventSource {
    /// Answers received, all of them 200.
    private(set) var answers = 0
    private(set) var failure: String?
    /// Requests that may still be sent.
    var left = 0
    private let socket: Int32
    private let loop: EventLoop
    private var request = SharedBytes.copy("")
    private var depth = 1
    private var underWay = 0
    private var unsent = ByteWriter(capacity: 4096)
    private var leftover: [UInt8] = []

    private static let connectMilliseconds: Int32 = 5000

    init(_ address: LoadAddress, loop: EventLoop) throws {
        self.loop = loop
        socket = try address.connect(source: 0)
        super.init()
        var connecting = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
        guard poll(&connecting, 1, Self.connectMilliseconds) == 1, Int32(connecting.revents) & POLLERR == 0 else {
            throw LoadFailure("\(address.text): cannot be connected to")
        }
        try loop.add(self, descriptor: socket, interest: .readable)
    }

    deinit {
        close(socket)
    }

    /// Starts sending `left` requests, `depth` of them in flight.
    func start(_ request: SharedBytes, depth: Int) {
        self.request = request
        self.depth = depth
        sendMore()
    }

    /// Whether every request has been answered.
    var isIdle: Bool { underWay == 0 }

    func drop() {
        loop.remove(self)
    }

    private func sendMore() {
        while underWay < depth, left > 0 {
            unsent.append(request)
            underWay += 1
            left -= 1
        }
        guard !unsent.isEmpty else { return }
        switch unsent.withUnsafeBytes({ Socket.send(socket, $0) }) {
        case .bytes(let count) where count == unsent.count: unsent.removeAll()
        case .bytes(let count):
            var rest = ByteWriter(capacity: unsent.count)
            unsent.withUnsafeBytes { rest.append(UnsafeRawBufferPointer(rebasing: $0[count...])) }
            unsent = rest
        case .wouldBlock: break
        case .endOfStream, .failed: fail("the hub has closed the connection")
        }
        loop.setInterest(self, unsent.isEmpty ? .readable : [.readable, .writable])
    }

    override func ready(_ readiness: Readiness) {
        guard readiness.contains(.readable) || readiness.contains(.hangup) else { return sendMore() }
        let result = withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 16) { buffer in
            let result = Socket.receive(socket, into: buffer)
            if case .bytes(let count) = result { read(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
            return result
        }
        switch result {
        case .bytes: if failure == nil { sendMore() }
        case .wouldBlock: break
        case .endOfStream, .failed: fail("the hub has closed the connection")
        }
    }

    private func read(_ bytes: UnsafeRawBufferPointer) {
        guard leftover.isEmpty else {
            let all = leftover + bytes
            leftover = []
            return all.withUnsafeBytes { take($0) }
        }
        take(bytes)
    }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        var at = 0
        do {
            while at < bytes.count {
                let rest = bytes.part(at..<bytes.count)
                guard let head = try ResponseHead.parse(rest) else { break }
                guard head.statusCode == 200, let length = head.field("content-length")?.decimalValue else {
                    return fail("a request was answered with status \(head.statusCode)")
                }
                guard rest.count >= head.consumed + length else { break }
                at += head.consumed + length
                answers += 1
                underWay -= 1
            }
        } catch {
            return fail("the hub's answer is no HTTP")
        }
        if at < bytes.count { leftover = Array(bytes[at...]) }
    }

    private func fail(_ reason: String) {
        guard failure == nil else { return }
        failure = reason
        drop()
    }
}
