/// What a hub does about the hub before it, the hub after it and its drain, as a value: what happens goes in, what to do
/// comes out. No I/O, no clock.
///
/// Both hubs have the listening sockets from the offer on, and nobody binds or closes them. So one that serves is left
/// whichever is killed. Worst interleavings, each with its test in `HandOverTests`, and with real processes in
/// `Tests/ThirdParty/test_take_over.py`:
/// - The successor goes before it is ready: the old hub has never stopped accepting.
/// - The successor accepts, and goes before it can say so: the old hub accepts, too. Each connection has one of them.
/// - The successor goes when the old one closes its clients: the old one accepts again, and keeps those that are left.
/// - The old hub goes before the successor is ready: the successor accepts at once, like a hub that starts.
/// - The old hub ends by a signal while the successor prepares: it hangs up first, so that the successor accepts before the
///   first client is closed.
/// - The successor ends by a signal while the old hub still closes clients: it hangs up first, and the old one accepts
///   again.
/// - The signal comes when the successor accepts already, or when somebody drains by hand: clients that have connected to
///   this hub are answered first, because no other hub can.
/// - A third hub asks while two are there: it is told to ask later. Otherwise the first could take the end of the second for
///   its failure, and two would serve.
struct HandOver {
    /// A connection to the control socket.
    typealias Peer = Int

    /// Valid transitions: preparing → serving; serving ⇄ offering; offering → relieved; relieved → serving; serving ⇄
    /// draining; serving, offering, relieved, draining → leaving; any → ended.
    enum State: Equatable {
        /// The hub before this one accepts connections until we are ready.
        case preparing
        case serving
        /// This one has our sockets, and becomes ready. We serve on.
        case offering(to: Peer)
        /// This one accepts connections. We accept none, and close ours.
        case relieved(by: Peer)
        /// By hand. We accept connections, because that may be taken back.
        case draining
        /// After the signal: not ready, and not ended.
        case leaving
        case ended
    }

    enum Input: Equatable {
        case asked(Peer, ControlRequest)
        case gone(Peer)
        /// This hub is ready.
        case ready
        case predecessorGone
        case signal
        /// No connection is left, or the deadline has passed.
        case drained
    }

    enum Effect: Equatable {
        /// Accept connections, and show the operations pages; or rest.
        case accept(Bool)
        /// Whether another hub has the sockets, too.
        case share(Bool)
        /// Say to the hub before this one that we accept.
        case tellPredecessor
        case leavePredecessor
        /// Send the sockets.
        case offer(Peer)
        case answer(Peer, ControlAnswer)
        case hangUp(Peer)
        /// Close connections at the pace; nil: no more.
        case drain(Drain?)
        /// Close everything, and end.
        case end
    }

    /// Why connections are closed.
    enum Drain: Equatable {
        /// At the pace, because somebody else accepts: a successor, or a hub behind a balancer (by hand, by signal).
        case successor, hand, signal
        /// At once, because the next to accept waits for our end or is there. Who has come in is still answered.
        case restart
    }

    private(set) var state: State
    /// Whether the hub before this one is still there.
    private(set) var hasPredecessor: Bool
    private var isReady = false
    /// Whether balancers get time to notice a signal.
    private let pauses: Bool
    /// Whether systemd holds the sockets.
    private let outlives: Bool
    /// Whether we have been told to end, and accept no more.
    private var rests = false
    /// Those who wait for the end of the drain.
    private(set) var followers: [Peer] = []

    init(hasPredecessor: Bool, pauses: Bool, outlives: Bool = false) {
        self.outlives = outlives
        state = hasPredecessor ? .preparing : .serving
        self.hasPredecessor = hasPredecessor
        self.pauses = pauses
    }

    mutating func received(_ input: Input) -> [Effect] {
        switch input {
        case .asked(let peer, let request): asked(request, by: peer)
        case .gone(let peer): gone(peer)
        case .ready: becameReady()
        case .predecessorGone: predecessorGone()
        case .signal: signal()
        case .drained: drained()
        }
    }

    // MARK: The hub before this one

    private mutating func becameReady() -> [Effect] {
        isReady = true
        guard state == .preparing else { return [] }
        state = .serving
        // In this order: at no moment does nobody accept.
        return [.accept(true), .tellPredecessor]
    }

    private mutating func predecessorGone() -> [Effect] {
        guard hasPredecessor else { return [] }
        hasPredecessor = false
        guard state == .preparing else { return state == .ended ? [] : [.share(false)] }
        state = .serving
        return [.share(false), .accept(true)]
    }

    // MARK: Requests

    private mutating func asked(_ request: ControlRequest, by peer: Peer) -> [Effect] {
        switch request {
        case .takeOver(let version): return takeOver(version, by: peer)
        case .ready:
            guard state == .offering(to: peer) else { return [.hangUp(peer)] }
            state = .relieved(by: peer)
            return [.accept(false), .drain(.successor), .answer(peer, .relieved)]
        case .drain:
            if state == .draining {
                followers.append(peer)
                return [.answer(peer, .draining)]
            }
            guard state == .serving else { return [.answer(peer, .refused(busy))] }
            state = .draining
            followers = [peer]
            return [.answer(peer, .draining), .drain(.hand)]
        case .cancel:
            guard state == .draining else {
                return [.answer(peer, .refused(state == .serving ? "no drain is under way" : busy))]
            }
            state = .serving
            defer { followers = [] }
            return [.drain(nil)] + (followers + [peer]).map { .answer($0, .cancelled) }
        }
    }

    private mutating func takeOver(_ version: Int, by peer: Peer) -> [Effect] {
        guard version == ControlRequest.version else {
            return [.answer(peer, .refused("the running hub hands over in another way: stop it, and start this one"))]
        }
        switch state {
        case .serving where !hasPredecessor:
            state = .offering(to: peer)
            return [.share(true), .offer(peer)]
        case .draining:
            return [
                .answer(peer, .refused("the running hub is drained by hand: carillon drain --cancel, and try again"))
            ]
        default: return [.answer(peer, .later(busy))]
        }
    }

    private var busy: String {
        switch state {
        case .preparing: "this hub is only starting"
        case .serving: "the hub before this one still closes its clients"
        case .offering: "another hub is taking over"
        case .relieved: "another hub has taken over"
        case .draining: "a drain is under way"
        case .leaving, .ended: "this hub ends"
        }
    }

    private mutating func gone(_ peer: Peer) -> [Effect] {
        followers.removeAll { $0 == peer }
        switch state {
        case .offering(to: peer):
            state = .serving
            return [.share(false)]
        case .relieved(by: peer):
            state = .serving
            return [.share(false), .accept(true), .drain(nil)]
        default: return []
        }
    }

    // MARK: The end

    private mutating func signal() -> [Effect] {
        switch state {
        case .serving where hasPredecessor:
            // It accepts again when we hang up, and our clients go there.
            return [.leavePredecessor] + leave()
        case .serving where pauses && isReady:
            state = .leaving
            return [.drain(.signal)]
        case .offering(let peer): return [.hangUp(peer)] + leave()
        case .relieved: return leave()
        case .serving where outlives, .draining where outlives: return leave()
        case .leaving, .ended: return []
        case .preparing, .serving, .draining:
            state = .ended
            return [.end]
        }
    }

    /// Somebody else holds the sockets: those who come from now on wait for it.
    private mutating func leave() -> [Effect] {
        (state, rests) = (.leaving, true)
        return [.accept(false), .drain(.restart)]
    }

    private mutating func drained() -> [Effect] {
        switch state {
        case .draining:
            defer { followers = [] }
            return followers.map { .answer($0, .drained) }
        // It accepted until now, for balancers.
        case .leaving where outlives && !rests: return leave()
        case .relieved, .leaving:
            state = .ended
            return [.end]
        case .preparing, .serving, .offering, .ended: return []
        }
    }
}
