import Clock
import Metrics
import Reactor

/// Accepts one listening socket's connections and deals each to the loop with the fewest. One for all loops: with
/// `SO_REUSEPORT` a second hub would silently bind the same port, and closing one of several sockets resets its queue.
final class Acceptor: EventSource {
    /// Nil when it accepts no more.
    private var socket: ListeningSocket?
    private let loop: EventLoop
    private let admission: AdmissionControl
    private let metrics: GatewayMetrics
    /// Somebody else accepts from this socket.
    private var isIdle = false
    private let deal: (Int32, PeerAddress, Int, AdmissionControl.Refusal?, _ beginsAt: Instant) -> Void

    /// How long accepting rests when the process is out of descriptors. The backlog holds new connections meanwhile.
    static let exhaustionPause = Duration.milliseconds(100)
    /// How long it rests while it needs the descriptors of connections about to be closed.
    static let departurePause = Duration.milliseconds(1)
    /// Connections accepted in one tick, so that a flood does not hold up existing ones.
    static let acceptsPerTickMax = 64

    init(
        _ socket: ListeningSocket, on loop: EventLoop, admission: AdmissionControl, metrics: GatewayMetrics,
        deal: @escaping (Int32, PeerAddress, Int, AdmissionControl.Refusal?, _ beginsAt: Instant) -> Void
    ) throws(ReactorError) {
        self.socket = socket
        self.loop = loop
        self.admission = admission
        self.metrics = metrics
        self.deal = deal
        super.init()
        try loop.add(self, descriptor: socket.descriptor, interest: .readable)
    }

    override func ready(_ readiness: Readiness) {
        guard let socket else { return }
        for _ in 0..<Self.acceptsPerTickMax {
            if admission.awaitsDepartures { return rest(Self.departurePause) }
            switch socket.accept() {
            case .connection(let descriptor, let address):
                switch admission.arrived(from: address, at: loop.now) {
                case .welcome(let loop): deal(descriptor, address, loop, nil, .min)
                case .waits(let loop, let time):
                    metrics.arrivals.delayed.add()
                    deal(descriptor, address, loop, nil, time)
                case .refused(let loop, let refusal):
                    metrics.refused(refusal, address)
                    deal(descriptor, address, loop, refusal, .min)
                case .shut(let refusal):
                    metrics.refused(refusal, address)
                    metrics.arrivals.shut.add()
                    Socket.close(descriptor)
                }
            case .none:
                return
            case .exhausted: exhausted()
            }
            // The loop may have failed to take the last one, too.
            if isResting { return }
        }
    }

    private var isResting: Bool { interest == [] }

    /// There are no descriptors, no memory or no epoll watches for further connections.
    func exhausted() {
        guard !isResting else { return }
        metrics.arrivals.exhaustions.add()
        rest(Self.exhaustionPause)
    }

    private func rest(_ pause: Duration) {
        loop.setInterest(self, [])
        loop.setDeadline(self, loop.now.advanced(by: pause))
    }

    override func deadlineReached() {
        if !isIdle { loop.setInterest(self, .readable) }
    }

    func accepts(_ accepts: Bool) {
        isIdle = !accepts
        loop.setDeadline(self, nil)
        loop.setInterest(self, accepts ? .readable : [])
    }

    /// Accepts no more. The socket is closed, so that nobody queues behind it in vain, and a successor can bind its port.
    func end() {
        loop.remove(self)
        socket = nil
    }
}
