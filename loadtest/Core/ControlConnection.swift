import Reactor

/// Accepts connections that ask for events.
final class ControlListener: EventSource {
    private let socket: ListeningSocket
    private unowned let feed: DemandFeed

    init(_ socket: ListeningSocket, _ feed: DemandFeed) {
        self.socket = socket
        self.feed = feed
    }

    override func ready(_ readiness: Readiness) {
        while case .connection(let descriptor, _) = socket.accept() { feed.accept(descriptor) }
    }
}

/// Reads the numbers of the users whose events are wanted. The numbers of one read form one batch, as one query's would.
final class ControlConnection: EventSource {
    private let socket: Int32
    private unowned let feed: DemandFeed
    private unowned let loop: EventLoop
    private var unread: [UInt8] = []
    private var isGreeted = false

    private static let greeting = Array("CONTROL\n".utf8)
    private static let readBytes = 65_536

    init(_ descriptor: Int32, _ feed: DemandFeed, _ loop: EventLoop) {
        socket = descriptor
        self.feed = feed
        self.loop = loop
    }

    deinit {
        Socket.close(socket)
    }

    override func ready(_ readiness: Readiness) {
        let result = withUnsafeTemporaryAllocation(byteCount: Self.readBytes, alignment: 16) { buffer in
            let result = Socket.receive(socket, into: buffer)
            if case .bytes(let count) = result { unread += buffer[..<count] }
            return result
        }
        switch result {
        case .bytes: read()
        case .wouldBlock: break
        case .endOfStream, .failed: loop.remove(self)
        }
    }

    private func read() {
        var bytes = unread[...]
        if !isGreeted {
            guard bytes.count >= Self.greeting.count else { return }
            guard bytes.starts(with: Self.greeting) else { return loop.remove(self) }
            bytes = bytes.dropFirst(Self.greeting.count)
            isGreeted = true
        }
        var users: [Int] = []
        while bytes.count >= 4 {
            users.append(bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) })
            bytes = bytes.dropFirst(4)
        }
        unread = Array(bytes)
        feed.publish(users)
    }
}
