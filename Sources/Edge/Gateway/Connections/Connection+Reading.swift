import Glibc
import Reactor
import WebSocket

/// The way of bytes in: from the socket into the loop's buffer, and on to the machine that understands them.
extension Connection {
    /// Reads once, and says whether something had come.
    @discardableResult func readable() -> Bool {
        if transport.state == .securing, !owner.handshakes.mayGoOn(self) { return false }
        let held = heldCount
        guard let room = transport.room(behind: held, in: owner.buffers.read) else {
            drop()
            return false
        }
        let result = receive(into: room)
        if transport.state == .securing, !owner.handshakes.advanced(self, result) { return false }
        switch result {
        case .bytes(let count):
            if webSocket?.heard(at: owner.loop.now) == true { alive() }
            consume(held: held, received: count)
            if transport.hasHeardAll { farewell() }
            return true
        case .wouldBlock:
            // Part of a record may have come.
            if transport.tls != nil { owner.holdings.unfinishedChanged(self) }
        // What was said before still goes out; a peer that is gone altogether refuses it.
        case .endOfStream where transport.state == .finishing && transport.hasUnsent: updateInterest()
        // Who asks no more (`nc -N`) still reads its answers.
        case .endOfStream where conversation != nil && transport.hasUnsent: finish()
        case .endOfStream: depart()
        case .failed(let code):
            if code == ETIMEDOUT { owner.metrics.reached(.unackedTimeout, address) }
            depart()
        }
        return false
    }

    private func receive(into room: UnsafeMutableRawBufferPointer) -> TransferResult {
        let result = transport.receive(into: room)
        guard transport.tls != nil else { return result }
        // TLS has answered by itself (a key update, RFC 8446 §4.6.3), and the socket has not taken it.
        if transport.hasUnsent { owner.loop.markDirty(self) }
        if transport.mayUpdateKeys(owner.settings.webSockets.controlRate, at: owner.loop.now) { return result }
        owner.metrics.reached(.keyUpdates, address)
        return .failed(EPROTO)
    }

    /// The pause is over: goes on with what had been read.
    func resume() {
        let held = heldCount
        if held > 0 { consume(held: held, received: 0) }
        // Behind it, for there may be another pause.
        if !hasEnded { updateInterest() }
        if transport.hasHeardAll { farewell() }
    }

    /// Bytes that were read before, and stand before those that come.
    private var heldCount: Int {
        if webSocket == nil { return conversation?.heldCount ?? 0 }
        return webSocket?.unfinished == nil ? 0 : webSocket?.leftoverCount ?? 0
    }

    /// Looks at what is held, and at what was received, which lies as far into the loop's buffer as there is held.
    private func consume(held: Int, received: Int) {
        let buffer = owner.buffers.read
        if webSocket != nil {
            if held > 0 { webSocket?.takeLeftover(into: buffer) }
            readMessages(UnsafeMutableRawBufferPointer(rebasing: buffer[0..<held + received]), from: 0)
        } else {
            conversation?.read(UnsafeRawBufferPointer(rebasing: buffer[held..<held + received]), self)
        }
        owner.holdings.unfinishedChanged(self)
    }
}
