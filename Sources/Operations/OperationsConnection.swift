import Bytes
import HTTP
import Reactor

/// Takes in the listener's connections.
final class OperationsAcceptor: EventSource {
    private let socket: ListeningSocket
    fileprivate let loop: EventLoop
    fileprivate let pages: OperationsPages
    fileprivate var connectionCount = 0

    init(_ socket: ListeningSocket, on loop: EventLoop, _ pages: OperationsPages) throws(ReactorError) {
        self.socket = socket
        self.loop = loop
        self.pages = pages
        super.init()
        try loop.add(self, descriptor: socket.descriptor, interest: .readable)
    }

    override func ready(_ readiness: Readiness) {
        while true {
            switch socket.accept() {
            case .connection(let descriptor, _): accepted(descriptor)
            case .none: return
            case .exhausted:
                loop.setInterest(self, [])
                loop.setDeadline(self, loop.now.advanced(by: OperationsLimits.exhaustionPause))
                return
            }
        }
    }

    override func deadlineReached() {
        loop.setInterest(self, .readable)
    }

    private func accepted(_ descriptor: Int32) {
        let connection = OperationsConnection(descriptor, self)
        guard connectionCount < OperationsLimits.connectionsMax,
            (try? loop.add(connection, descriptor: descriptor, interest: .readable)) != nil
        else { return }
        connectionCount += 1
        loop.setDeadline(connection, loop.now.advanced(by: OperationsLimits.exchangeTime))
    }
}

/// One request and its answer. The connection ends with it: those who ask come by every few seconds.
///
/// Valid transitions: reading → answering → finishing → gone; any → gone.
final class OperationsConnection: EventSource {
    private enum Phase {
        case reading, answering
        /// All is sent: the peer's end is awaited, for a close with something unread would reset the connection and could
        /// take the answer with it.
        case finishing
        case gone
    }

    private let descriptor: Int32
    // The acceptor lives as long as the loop, which holds the connections.
    private unowned let owner: OperationsAcceptor
    private var phase = Phase.reading
    private var parser = RequestParser(limits: OperationsLimits.http)
    /// The unfinished request.
    private var input: [UInt8] = []
    private var output = SharedBytes.copy("")
    private var sent = 0

    init(_ descriptor: Int32, _ owner: OperationsAcceptor) {
        self.descriptor = descriptor
        self.owner = owner
        super.init()
    }

    deinit {
        Socket.close(descriptor)
    }

    override func ready(_ readiness: Readiness) {
        if readiness.contains(.hangup) { return end() }
        if readiness.contains(.writable), phase == .answering { send() }
        if readiness.contains(.readable), phase != .gone { read() }
    }

    override func deadlineReached() {
        end()
    }

    private func read() {
        let (result, bytes) = withUnsafeTemporaryAllocation(byteCount: OperationsLimits.readBytes, alignment: 1) {
            room in
            let result = Socket.receive(descriptor, into: room)
            guard case .bytes(let count) = result, phase == .reading else { return (result, [UInt8]()) }
            return (result, Array(room[0..<count]))
        }
        switch result {
        case .bytes:
            if phase == .reading { parse(bytes) }
        case .wouldBlock: break
        case .endOfStream, .failed: end()
        }
    }

    private func parse(_ bytes: [UInt8]) {
        guard input.count + bytes.count <= OperationsLimits.http.messageBytes else { return end() }
        input += bytes
        let pages = owner.pages
        let answer = input.withUnsafeMutableBytes { bytes -> SharedBytes? in
            do throws(HTTPError) {
                return try parser.parse(bytes).map { pages.answer($0) }
            } catch {
                return pages.refusal(error)
            }
        }
        guard let answer else { return }
        input = []
        output = answer
        phase = .answering
        send()
    }

    private func send() {
        while sent < output.count {
            let rest = UnsafeRawBufferPointer(start: output.baseAddress + sent, count: output.count - sent)
            switch Socket.send(descriptor, rest) {
            case .bytes(let count): sent += count
            case .wouldBlock: return owner.loop.setInterest(self, [.readable, .writable])
            case .endOfStream, .failed: return end()
            }
        }
        phase = .finishing
        Socket.finishSending(descriptor)
        owner.loop.setInterest(self, .readable)
    }

    private func end() {
        guard phase != .gone else { return }
        phase = .gone
        owner.connectionCount -= 1
        owner.loop.remove(self)
    }
}
