import Bytes
import Clock
import HTTP
import Reactor

/// Accepts the listener's connections. One beyond the bound closes the oldest, whatever its state. So nobody can lock out
/// health checks by holding connections open.
final class OperationsAcceptor: EventSource {
    private let socket: ListeningSocket
    fileprivate let loop: EventLoop
    fileprivate let pages: OperationsPages
    fileprivate let orders: Mailbox<OperationsServer.Order>
    private let exchangeTime: Duration
    private var connections: [OperationsConnection] = []
    /// Valid transitions: accepting ⇄ idle; accepting or idle → ending.
    private var state = State.accepting

    private enum State {
        case accepting, idle, ending
    }

    init(
        _ socket: ListeningSocket, on loop: EventLoop, _ orders: Mailbox<OperationsServer.Order>,
        _ pages: OperationsPages, exchangeTime: Duration
    ) throws(ReactorError) {
        self.socket = socket
        self.loop = loop
        self.orders = orders
        self.pages = pages
        self.exchangeTime = exchangeTime
        super.init()
        try loop.add(self, descriptor: socket.descriptor, interest: .readable)
    }

    override func ready(_ readiness: Readiness) {
        // A quarter of the bound in a turn, so that each is read before it can be the oldest.
        for _ in 0..<OperationsLimits.connectionsMax / 4 {
            switch socket.accept() {
            case .connection(let descriptor, let address): accepted(descriptor, address)
            case .none: return
            case .exhausted:
                loop.setInterest(self, [])
                loop.setDeadline(self, loop.now.advanced(by: OperationsLimits.exhaustionPause))
                return
            }
        }
    }

    override func deadlineReached() {
        switch state {
        case .accepting: loop.setInterest(self, .readable)
        case .idle: break
        case .ending: loop.handle.stop()
        }
    }

    func follow(_ order: OperationsServer.Order) {
        guard state != .ending else { return }
        switch order {
        case .accept(let accepts):
            state = accepts ? .accepting : .idle
            loop.setDeadline(self, nil)
            loop.setInterest(self, accepts ? .readable : [])
        case .end(let time):
            state = .ending
            loop.setInterest(self, [])
            loop.setDeadline(self, loop.now.advanced(by: time))
            endIfDone()
        case .answer(let slot, let generation, let answer):
            (loop.source(slot: slot, generation: generation) as? OperationsConnection)?.answered(answer())
        }
    }

    private func endIfDone() {
        if state == .ending, connections.isEmpty { loop.handle.stop() }
    }

    private func accepted(_ descriptor: Int32, _ address: PeerAddress) {
        let connection = OperationsConnection(descriptor, address, self)
        guard (try? loop.add(connection, descriptor: descriptor, interest: .readable)) != nil else { return }
        loop.setDeadline(connection, loop.now.advanced(by: exchangeTime))
        connections.append(connection)
        if connections.count > OperationsLimits.connectionsMax { connections[0].end() }
    }

    fileprivate func ended(_ connection: OperationsConnection) {
        connections.removeAll { $0 === connection }
        endIfDone()
    }
}

/// One request and its answer, then the connection ends: clients here come every few seconds.
///
/// Valid transitions: reading → answering → finishing → gone; reading → waiting → answering; any → gone. The late answer
/// of an added route finds nobody: it names the connection by slot and generation.
final class OperationsConnection: EventSource {
    private enum Phase {
        case reading
        /// An added route answers later, or the deadline ends it.
        case waiting
        case answering
        /// Everything is sent, and the peer's end is awaited: a close with unread input could reset the connection (answer
        /// lost).
        case finishing
        case gone
    }

    private let descriptor: Int32
    private let address: PeerAddress
    // The acceptor lives as long as the loop, and both hold the connections.
    private unowned let owner: OperationsAcceptor
    private var phase = Phase.reading
    private var parser: RequestParser
    /// The unfinished request.
    private var input: [UInt8] = []
    private var output = SharedBytes.copy("")
    private var sent = 0

    init(_ descriptor: Int32, _ address: PeerAddress, _ owner: OperationsAcceptor) {
        self.descriptor = descriptor
        self.address = address
        parser = RequestParser(limits: owner.pages.limits)
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
        let pages = owner.pages
        guard input.count + bytes.count <= pages.limits.messageBytes else { return end() }
        input += bytes
        let answer = input.withUnsafeMutableBytes { bytes -> SharedBytes? in
            do throws(HTTPError) {
                return try parser.parse(bytes).flatMap { self.answer(to: $0) }
            } catch {
                return pages.refusal(error)
            }
        }
        if let answer { begin(answer) } else if phase == .waiting { input = [] }
    }

    /// Nil where an added route answers later.
    private func answer(to request: ParsedRequest) -> SharedBytes? {
        guard let routes = owner.pages.routes, routes.owns(request) else {
            return owner.pages.answer(request, from: address)
        }
        phase = .waiting
        routes.answer(request, from: address) { [orders = owner.orders, slot, generation] answer in
            orders.post(.answer(slot: slot, generation: generation, answer))
        }
        return nil
    }

    fileprivate func answered(_ answer: SharedBytes) {
        if phase == .waiting { begin(answer) }
    }

    private func begin(_ answer: SharedBytes) {
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

    fileprivate func end() {
        guard phase != .gone else { return }
        phase = .gone
        owner.ended(self)
        owner.loop.remove(self)
    }
}
