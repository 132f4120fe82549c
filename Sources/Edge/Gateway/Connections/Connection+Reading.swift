import Glibc
import Reactor

/// The way of bytes in: from the socket into the loop's buffer, and on to who understands them.
extension Connection {
    /// Reads once, and says whether something had come.
    @discardableResult func readable() -> Bool {
        if phase == .securing, !mayHandshake() { return false }
        let buffer = owner.buffers.read
        let held = leftover.count
        guard held < buffer.count else {
            drop()
            return false
        }
        // TLS needs room for a record that came in part before, and takes no more from the kernel by itself.
        let end = tls == nil ? min(buffer.count, held &+ LoopBuffers.readRoom) : buffer.count
        let room = UnsafeMutableRawBufferPointer(rebasing: buffer[held..<end])
        let result = receive(into: room)
        if phase == .securing, !handshakeAdvanced(result) { return false }
        switch result {
        case .bytes(let count):
            lastInbound = owner.loop.now
            if awaitsPong { alive() }
            consume(held: held, received: count)
            if let tls, tls.hasEnded { farewell() }
            return true
        case .wouldBlock:
            // Part of a record may have come.
            if tls != nil { accountUnfinished() }
        // What was said before still goes out; a peer that is gone altogether refuses it.
        case .endOfStream where phase == .finishing && hasUnsent: updateInterest()
        // Who asks no more (`nc -N`) still reads his answers.
        case .endOfStream where phase == .http && hasUnsent: finish()
        case .endOfStream: depart()
        case .failed(let code):
            if code == ETIMEDOUT { owner.metrics.reached(.unackedTimeout, address) }
            depart()
        }
        return false
    }

    /// The pause is over: goes on with what had been read.
    func resume() {
        let held = leftover.count
        if held > 0 { consume(held: held, received: 0) }
        // Behind it, for there may be another pause.
        if !hasEnded { updateInterest() }
        if let tls, tls.hasEnded { farewell() }
    }

    /// Looks at what is held, and at what was received, which lies as far into the loop's buffer as there is held.
    private func consume(held: Int, received: Int) {
        if held > 0, phase == .http {
            consumeRequest(UnsafeRawBufferPointer(rebasing: owner.buffers.read[held..<held + received]))
        } else {
            let buffer = owner.buffers.read
            if held > 0 {
                leftover.withUnsafeBytes { buffer.copyMemory(from: $0) }
                leftover = []
                // As it was before a pause: whole messages have a shorter way.
                if let unfinished, unfinished.isFinished, messageSince == Self.never { self.unfinished = nil }
            }
            let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[0..<held + received])
            let consumed = process(bytes)
            if consumed < bytes.count, mayGoOn { leftover = Array(bytes[consumed...]) }
        }
        if unfinished?.isFinished == true { unfinished = nil }
        if phase == .open, turn == .none { watchMessage() }
        accountUnfinished()
    }

    /// What is held of a request grows where it lies: copied at each read, a request that comes byte by byte would cost the
    /// square of its length.
    private func consumeRequest(_ received: UnsafeRawBufferPointer) {
        var bytes = exchange(&leftover, with: [])
        bytes.append(contentsOf: received)
        let consumed = bytes.withUnsafeMutableBytes { process($0) }
        guard consumed < bytes.count, mayGoOn else { return }
        if consumed > 0 { bytes = Array(bytes[consumed...]) }
        leftover = bytes
    }

    /// Whether what is left of the input will be looked at.
    private var mayGoOn: Bool { !hasEnded && phase != .finishing }

    /// Consumes what it can in one turn, and says how much that was.
    private func process(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        var consumed = 0
        var requests = 0
        var room = owner.settings.limits.turnBytesMax
        while consumed < bytes.count {
            if phase == .http, let conversation, rests(conversation, after: requests) { return consumed }
            requests += 1
            let before = consumed
            let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[consumed...])
            switch phase {
            case .http: consumed += readRequest(rest)
            case .open, .closing:
                consumed += readMessages(rest, room: &room)
                if room <= 0, phase == .open || phase == .closing, consumed < bytes.count {
                    awaitTurn()
                    return consumed
                }
            case .securing, .awaitingAnswer, .awaitingToken, .draining: return consumed
            case .finishing, .departed, .gone: return bytes.count
            }
            if consumed == before { return consumed }
        }
        return consumed
    }
}
