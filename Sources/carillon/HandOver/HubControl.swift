import CLinux
import Clock
import Gateway
import Glibc
import Logging
import Operations
import Reactor

/// What a hub's control decides about.
struct ControlledHub: Sendable {
    let gateway: Gateway
    let health: Health
    let listeners: HubListeners
    let pages: OperationsPagesSwitch
    /// The pause before the first connection is closed; connections closed each second from then on; the time for all.
    let drain: (pause: Duration, perSecond: Int, deadline: Duration)
    let logger: Logger
}

/// The pages of operations, which another hub may show in our place.
final class OperationsPagesSwitch: Sendable {
    private let server = Locked<OperationsServer?>(nil)
    private let make: @Sendable () throws -> OperationsServer?

    init(make: @escaping @Sendable () throws -> OperationsServer?) {
        self.make = make
    }

    /// Accepts visitors of the pages, or leaves them to the other hub. Used by the thread that starts the hub, and later by
    /// that of its control, never by both at a time.
    func shows(_ shows: Bool) throws {
        if let server = server.withLock({ $0 }) { return server.accepts(shows) }
        guard shows else { return }
        let made = try make()
        server.withLock { $0 = made }
    }

    /// Ends the pages, after the hub's control has ended.
    func close() {
        let ended = server.withLock { exchange(&$0, with: nil) }
        ended?.stop()
    }
}

/// The thread that decides when a hub accepts, drains and ends (`HandOver`), and speaks with the hubs before and after it,
/// and with `carillon drain`, by the control socket.
final class HubControl: Sendable {
    /// Set when the hub has to end.
    let ended = Latch()
    private let inputs = Locked<[HandOver.Input?]>([])
    private let wake: Int32
    private let thread: Locked<SystemThread?>
    private let preparing: Locked<Bool>

    /// Whether the hub before this one accepts connections until this one is ready.
    var awaitsUs: Bool { preparing.withLock { $0 } }

    /// - Parameters:
    ///   - predecessor: the hub before this one.
    ///   - stop: the signal to end.
    init(_ hub: ControlledHub, predecessor: GivenSockets.Predecessor?, stop: Latch) throws {
        let wake = cl_eventfd()
        guard wake >= 0 else { throw Failure("no descriptor left for the hub's control") }
        self.wake = wake
        thread = Locked(nil)
        preparing = Locked(predecessor != nil)
        let (inputs, preparing, ended) = (inputs, preparing, ended)
        let started = try SystemThread(name: "control") {
            let loop = ControlLoop(hub, predecessor, stop: stop, ended: ended, wake: wake)
            loop.run {
                preparing.withLock { $0 = loop.isPreparing }
                return inputs.withLock { exchange(&$0, with: []) }
            }
        }
        thread.withLock { $0 = started }
    }

    deinit { close(wake) }

    /// The hub is ready.
    func ready() { post(.ready) }

    /// Ends the thread and its connections. The hub on the other end of one of them accepts then, if it does not already.
    func stop() {
        post(nil)
        thread.withLock { exchange(&$0, with: nil) }?.join()
    }

    private func post(_ input: HandOver.Input?) {
        inputs.withLock { $0.append(input) }
        var one: UInt64 = 1
        _ = write(wake, &one, MemoryLayout<UInt64>.size)
    }
}

/// The control's state. Belongs to its thread.
private final class ControlLoop {
    /// A connection to the control socket.
    private struct Caller {
        let descriptor: Int32
        let process: Int32
        var lines = LineBuffer(bytesMax: ControlRequest.bytesMax)
        /// It has asked for something.
        var isKnown = false
        let since: Instant
    }

    private let hub: ControlledHub
    private let stop: Latch
    private let ended: Latch
    private let wake: Int32
    private var machine: HandOver
    private var predecessor: GivenSockets.Predecessor?
    private var predecessorLines = LineBuffer(bytesMax: ControlAnswer.bytesMax)
    private var callers: [HandOver.Peer: Caller] = [:]
    private var lastCaller = 0
    private var drain: DrainProgress?
    private var drainManner = HandOver.Drain.hand
    private var hasSeenStop = false
    /// Told when the accepting loop rests; nil where that is known. A connection that it accepts until then is one of ours.
    private var rest: Told<Bool>?
    /// Those who await an answer, once they are counted.
    private var count: Told<UnansweredConnections>?

    /// Callers at a time. One more is closed.
    static let callersMax = 16
    /// How long one may be silent before its first request.
    static let silenceMax = Duration.seconds(5)
    /// How often a drain is looked at.
    static let look = Duration.milliseconds(20)
    /// How often it is looked whether accepting rests.
    static let restLook = Duration.milliseconds(1)
    /// How long the next hub waits for clients that are slow to go.
    static let restartTime = Duration.milliseconds(500)
    /// How long it waits, after that, for those who have connected and await an answer.
    static let visitorsTime = Duration.milliseconds(1_500)

    init(
        _ hub: ControlledHub, _ predecessor: GivenSockets.Predecessor?, stop: Latch, ended: Latch, wake: Int32
    ) {
        self.hub = hub
        self.predecessor = predecessor
        self.stop = stop
        self.ended = ended
        self.wake = wake
        machine = HandOver(
            hasPredecessor: predecessor != nil, pauses: hub.drain.pause > .zero, outlives: hub.listeners.isOfSystemd)
    }

    /// - Parameter posted: takes out what other threads say; nil in it ends this thread.
    func run(_ posted: () -> [HandOver.Input?]) {
        while true {
            for input in posted() {
                guard let input else { return finish() }
                received(input)
            }
            if !hasSeenStop, stop.isSet {
                hasSeenStop = true
                received(.signal)
            }
            lookAtDrain()
            wait()
        }
    }

    private func finish() {
        if let predecessor { Socket.close(predecessor.connection) }
        for caller in callers.values { Socket.close(caller.descriptor) }
    }

    var isPreparing: Bool { machine.state == .preparing }

    // MARK: Waiting

    /// Whether callers are heard: not while another hub hears them.
    private var listens: Bool {
        switch machine.state {
        case .serving, .offering, .draining, .leaving: true
        case .preparing, .relieved, .ended: false
        }
    }

    private func wait() {
        let listener = listens && callers.count <= Self.callersMax ? hub.listeners.control : nil
        var entries = [
            wake, hasSeenStop ? -1 : stop.descriptor, predecessor?.connection ?? -1, listener?.descriptor ?? -1,
        ].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        let peers = callers.keys.sorted()
        entries += peers.compactMap { callers[$0] }.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        let looks = drain.map { !$0.isOver } ?? false
        let isAwaited = callers.values.contains { !$0.isKnown }
        let time = looks ? rest == nil ? Self.look : Self.restLook : isAwaited ? Self.silenceMax : nil
        guard poll(&entries, nfds_t(entries.count), time.map { Int32(clamping: $0.wholeMilliseconds) } ?? -1) >= 0
        else { return }
        if entries[0].revents != 0 {
            var count: UInt64 = 0
            _ = read(wake, &count, MemoryLayout<UInt64>.size)
        }
        // The predecessor first: what a caller is told depends on it.
        if entries[2].revents != 0 { hearPredecessor() }
        for (peer, entry) in zip(peers, entries.dropFirst(4)) where entry.revents != 0 { hear(peer) }
        if entries[3].revents != 0, let listener { accept(listener) }
        let now = Instant.read()
        for (peer, caller) in callers where !caller.isKnown && now.duration(since: caller.since) >= Self.silenceMax {
            left(peer)
        }
    }

    private func accept(_ listener: ListeningSocket) {
        guard case .connection(let descriptor, _) = listener.accept() else { return }
        guard callers.count < Self.callersMax, let peer = LocalSocket.peer(descriptor), peer.isTrusted else {
            return Socket.close(descriptor)
        }
        lastCaller += 1
        callers[lastCaller] = Caller(descriptor: descriptor, process: peer.process, since: .read())
    }

    private func hear(_ peer: HandOver.Peer) {
        guard let descriptor = callers[peer]?.descriptor else { return }
        switch LocalSocket.receive(descriptor, atMost: ControlRequest.bytesMax) {
        case .nothing: return
        case .end: left(peer)
        case .bytes(let bytes, let descriptors, _):
            for descriptor in descriptors { Socket.close(descriptor) }
            guard callers[peer]?.lines.append(bytes) == true else { return left(peer) }
            while let line = callers[peer]?.lines.next() {
                guard let request = ControlRequest(line) else { return left(peer) }
                callers[peer]?.isKnown = true
                received(.asked(peer, request))
            }
        }
    }

    private func left(_ peer: HandOver.Peer) {
        guard let caller = callers.removeValue(forKey: peer) else { return }
        Socket.close(caller.descriptor)
        switch machine.state {
        case .offering(to: peer): hub.logger.warning("the successor has gone before it was ready: this hub serves on")
        case .relieved(by: peer): hub.logger.warning("the successor has gone: this hub serves again")
        default: break
        }
        received(.gone(peer))
    }

    private func hearPredecessor() {
        guard let connection = predecessor?.connection else { return }
        switch LocalSocket.receive(connection, atMost: ControlAnswer.bytesMax) {
        case .nothing: return
        case .end: predecessorEnded()
        case .bytes(let bytes, let descriptors, _):
            for descriptor in descriptors { Socket.close(descriptor) }
            guard predecessorLines.append(bytes) else { return predecessorEnded() }
            while let line = predecessorLines.next() {
                guard case .relieved = ControlAnswer(line) else { continue }
                hub.logger.notice("took over: the hub before this one closes its clients")
            }
        }
    }

    private func predecessorEnded() {
        guard let ended = exchange(&predecessor, with: nil) else { return }
        Socket.close(ended.connection)
        hub.logger.notice("the hub before this one has ended", metadata: ["process": "\(ended.process)"])
        received(.predecessorGone)
    }

    // MARK: Effects

    private func received(_ input: HandOver.Input) {
        for effect in machine.received(input) { perform(effect) }
    }

    private func perform(_ effect: HandOver.Effect) {
        switch effect {
        case .accept(let accepts):
            let rest = accepts ? nil : Told<Bool>()
            self.rest = rest
            hub.gateway.accepts(accepts) { rest?.tell(true) }
            do { try hub.pages.shows(accepts) } catch { hub.logger.error("no operations pages: \(error)") }
        case .share(let isShared): hub.listeners.share(isShared)
        case .tellPredecessor:
            if let predecessor { _ = LocalSocket.send(ControlRequest.ready.line, to: predecessor.connection) }
        case .leavePredecessor:
            if let gone = exchange(&predecessor, with: nil) { Socket.close(gone.connection) }
        case .offer(let peer): offer(peer)
        case .answer(let peer, let answer): tell(peer, answer)
        case .hangUp(let peer):
            if let caller = callers.removeValue(forKey: peer) { Socket.close(caller.descriptor) }
        case .drain(let manner): if let manner { begin(manner) } else { takeBack() }
        case .end: ended.set()
        }
    }

    private func offer(_ peer: HandOver.Peer) {
        let offer = hub.listeners.offer
        guard let caller = callers[peer] else { return }
        hub.logger.notice("a successor starts, and has the sockets", metadata: ["process": "\(caller.process)"])
        guard LocalSocket.send(ControlAnswer.sockets(offer.names).line, offer.descriptors, to: caller.descriptor) else {
            return left(peer)
        }
    }

    /// One that does not read is no longer told.
    private func tell(_ peer: HandOver.Peer, _ answer: ControlAnswer) {
        guard let caller = callers[peer], !LocalSocket.send(answer.line, to: caller.descriptor) else { return }
        left(peer)
    }

    // MARK: The drain

    private func begin(_ manner: HandOver.Drain) {
        hub.health.drains()
        let pause = manner == .hand || manner == .signal ? hub.drain.pause : .zero
        let deadline = manner == .restart ? min(Self.restartTime, hub.drain.deadline) : hub.drain.deadline
        let grace = manner == .restart ? min(Self.visitorsTime, hub.drain.deadline - deadline) : .zero
        drainManner = manner
        count = nil
        drain = DrainProgress(at: .read(), pause: pause, deadline: deadline, grace: grace)
        hub.logger.notice(
            "draining",
            metadata: [
                "reason": "\(manner)", "connections": "\(hub.gateway.connectionCount)", "pause": "\(Form.brief(pause))",
                "deadline": "\(Form.brief(deadline))",
            ])
        lookAtDrain()
    }

    private func takeBack() {
        drain = nil
        hub.gateway.drain(nil)
        hub.health.servesAgain()
        hub.logger.notice("the drain was taken back", metadata: ["connections": "\(hub.gateway.connectionCount)"])
    }

    private func lookAtDrain() {
        guard var progress = drain, !progress.isOver else { return }
        // Otherwise a connection could come after the last was counted, or after those that are closed.
        if let rest, rest.value == nil { return }
        rest = nil
        let (now, connections) = (Instant.read(), hub.gateway.connectionCount)
        let visitors = count?.value
        if visitors != nil { count = nil }
        let steps = progress.steps(at: now, connections: connections, visitors: visitors)
        let tells = progress.tells(at: now)
        drain = progress
        if tells {
            hub.logger.notice("draining", metadata: ["left": "\(connections)"])
            for peer in machine.followers { tell(peer, .left(connections)) }
        }
        for step in steps {
            switch step {
            case .close: hub.gateway.drain(order(perSecond: drainManner == .restart ? nil : hub.drain.perSecond))
            case .count: countVisitors()
            case .closeRest: hub.gateway.drain(order(perSecond: nil))
            case .finished:
                hub.logger.notice(
                    "drained", metadata: ["left": "\(connections)", "took": "\(Form.brief(progress.time(at: now)))"])
                received(.drained)
            }
        }
    }

    private func countVisitors() {
        guard count == nil else { return }
        let told = Told<UnansweredConnections>()
        count = told
        hub.gateway.countVisitors { told.tell($0) }
    }

    private func order(perSecond: Int?) -> DrainOrder {
        DrainOrder(perSecond: perSecond, hasSuccessor: drainManner == .successor || drainManner == .restart)
    }
}

/// A value that a loop of the gateway reports to the control's thread, once.
private final class Told<Value: Sendable>: Sendable {
    private let told = Locked<Value?>(nil)

    var value: Value? { told.withLock { $0 } }

    func tell(_ value: Value) { told.withLock { $0 = value } }
}
