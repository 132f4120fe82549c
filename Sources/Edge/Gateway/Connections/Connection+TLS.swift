import Bytes
import Channels
import Clock
import Glibc
import HTTP
import Metrics
import Reactor

extension Connection {
    /// Reads what has come, as plaintext.
    @inline(__always)
    func receive(into room: UnsafeMutableRawBufferPointer) -> TransferResult {
        guard let tls else { return Socket.receive(descriptor, into: room) }
        let result = tls.receive(descriptor, into: room)
        // TLS has answered by itself (a key update, RFC 8446 §4.6.3), and the socket has not taken it.
        if tls.hasUnsent { owner.loop.markDirty(self) }
        if tls.keyUpdates > 0, !mayUpdateKeys(tls.keyUpdates) { return .failed(EPROTO) }
        return result
    }

    /// New keys were asked for so many times. Each costs about as much as ten messages, and counts as a ping does.
    private func mayUpdateKeys(_ count: Int) -> Bool {
        var isAllowed = count <= TLSSession.keyUpdatesMax
        for _ in 0..<count where isAllowed {
            isAllowed = controlAllowance.take(owner.settings.controlRate, at: owner.loop.now)
        }
        if !isAllowed { owner.metrics.reached(.keyUpdates, address) }
        return isAllowed
    }

    /// Whether its handshake goes on now. One whose client has said nothing has no turn: it may be looked at before anything
    /// has come (`overtake`), or come to its end.
    func mayHandshake() -> Bool {
        if tls != nil { return true }
        switch Socket.peek(descriptor) {
        case .bytes: break
        case .wouldBlock: return false
        case .endOfStream, .failed:
            handshakeFailed(.closed)
            return false
        }
        switch owner.handshakes.arrived(sessionID) {
        case .begin: return beginHandshake()
        case .wait:
            owner.loop.setInterest(self, [])
            return false
        case .shed:
            handshakeFailed(.shed)
            return false
        }
    }

    /// Its turn has come.
    func handshakeTurn() {
        guard phase == .securing, tls == nil else { return }
        // Before it begins: by this is told who waits.
        updateInterest()
        owner.handshakes.begin(sessionID)
        guard beginHandshake() else { return }
        readable()
    }

    private func beginHandshake() -> Bool {
        owner.handshakes.begun()
        tls = owner.handshakes.newSession()
        if tls != nil { return true }
        // OpenSSL has no memory.
        owner.handshakes.ended()
        handshakeFailed(.shed)
        return false
    }

    /// Bytes of the handshake were read: whether it is complete, so that what follows is HTTP.
    func handshakeAdvanced(_ result: TransferResult) -> Bool {
        guard let tls else { return false }
        switch result {
        case .endOfStream:
            handshakeFailed(.closed)
            return false
        case .failed:
            handshakeFailed(tls.failure ?? .closed)
            return false
        case .bytes, .wouldBlock: break
        }
        if !tls.isEstablished {
            updateInterest()
            return false
        }
        owner.handshakes.ended()
        owner.metrics.tls.handshakes[tls.isResumed ? "resumed" : "full"].add()
        if let conversation {
            owner.metrics.tls.times.record(owner.loop.now.duration(since: conversation.startedAt))
        }
        phase = .http
        conversation?.awaitedSince = owner.loop.now
        owner.loop.setDeadline(self, owner.loop.now.advanced(by: owner.settings.timeouts.handshake))
        updateInterest()
        return true
    }

    /// The handshake comes to nothing. A client that speaks plain HTTP is told what it should do.
    func handshakeFailed(_ reason: TLSFailure) {
        guard phase == .securing else { return }
        // Who says nothing at all and goes has not tried: a balancer that looks whether the port is open.
        if reason != .closed || tls?.hasBegun == true { owner.metrics.tls.failures[reason.rawValue].add() }
        guard reason == .plainHTTP else { return drop() }
        if tls != nil { owner.handshakes.ended() }
        tls = nil
        phase = .http
        answer(.problem(.badRequest, "This port speaks TLS: use https:// or wss://."), keepsAlive: false)
    }

    /// The peer has said that it sends no more, and what it said before has been looked at.
    func farewell() {
        // Whose answer is on its way gets it, and whose requests wait for their turn gets all of theirs.
        if phase == .awaitingAnswer || phase == .awaitingToken { return }
        if let conversation, conversation.rest != .none { return }
        if turn != .none { return }
        tickEnded()
        if hasEnded { return }
        if hasUnsent { finish() } else { depart() }
    }

    /// It goes away, whatever for: a handshake under way makes room for another one, and so does one that waits.
    func leaveHandshake() {
        guard phase == .securing else { return }
        if tls != nil { return owner.handshakes.ended() }
        if waitsForHandshake { owner.handshakes.leaves() }
    }

    /// Whether it stands in `HandshakeLine`.
    var waitsForHandshake: Bool { phase == .securing && tls == nil && interest == [] }
}
