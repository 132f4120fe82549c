import Bytes
import Clock
import Glibc
import Reactor

/// A connection's bytes: its socket, in the clear or with TLS, and what is still to be sent. It reads into its loop's buffer,
/// owns memory only for an unsent tail, and knows nothing of what the bytes mean.
///
/// Worst interleavings:
/// - the peer has gone, and something is sent: what had come before counts, and is still to be read (`isBroken`);
/// - TLS has sealed something that the socket does not take: that cannot be taken back, nor may more be sealed behind it;
/// - TLS has said that no more comes while plaintext is unread: the socket will never be readable again (`hasHeardAll`);
/// - all is sent, but something of the peer's is unread: a plain close could reset the connection and take the last bytes with
///   it, so that its end of the stream is awaited (`endStream`).
struct Transport {
    /// Valid transitions: `securing` → `open` → `finishing`; any → `shut`.
    enum State {
        /// The TLS handshake is not complete, or has not begun.
        case securing
        case open
        /// Sends what is queued, then ends.
        case finishing
        /// Nothing is read or sent any more.
        case shut
    }

    // What a delivery looks at comes first (see `Connection`).
    private(set) var output = WriteQueue()
    /// Nil where the connection is in the clear, and until its client's first bytes are looked at.
    private(set) var tls: TLSSession?
    let descriptor: Int32
    private(set) var state: State
    /// The socket takes nothing any more, and what had come before waits to be looked at.
    private(set) var isBroken = false

    init(_ descriptor: Int32, usesTLS: Bool) {
        self.descriptor = descriptor
        state = usesTLS ? .securing : .open
    }

    // MARK: In

    // Mutating, or a connection would copy it for the call.

    /// Where to read to, behind so many bytes that are held; nil where there is no room.
    mutating func room(behind held: Int, in buffer: UnsafeMutableRawBufferPointer) -> UnsafeMutableRawBufferPointer? {
        guard held < buffer.count else { return nil }
        // TLS needs room for a record that came in part before, and takes no more from the kernel by itself.
        let end = tls == nil ? min(buffer.count, held &+ LoopBuffers.readRoom) : buffer.count
        return UnsafeMutableRawBufferPointer(rebasing: buffer[held..<end])
    }

    /// Reads what has come, as plaintext. TLS may have something to send then.
    ///
    /// - Parameter rate: how often the peer may ask for new keys, each of which costs about as much as ten messages; it fails
    ///   with `EDQUOT` beyond that.
    @inline(__always)
    mutating func receive(
        into room: UnsafeMutableRawBufferPointer, keyUpdates rate: Rate, at now: Instant
    ) -> TransferResult {
        guard let tls else { return Socket.receive(descriptor, into: room) }
        let result = tls.receive(descriptor, into: room)
        let isAllowed =
            tls.keyUpdates <= TLSSession.keyUpdatesMax
            && (0..<tls.keyUpdates).allSatisfy { _ in tls.updateAllowance.take(rate, at: now) }
        return isAllowed ? result : .failed(EDQUOT)
    }

    /// Whether the peer has said that no more comes, which its socket may not show.
    var hasHeardAll: Bool { tls?.hasEnded == true }

    /// Bytes of a record that has come in part.
    var heldBytes: Int { tls?.heldBytes ?? 0 }

    // MARK: Out

    @inline(__always)
    mutating func queue(_ frame: consuming SharedBytes) { output.append(frame) }

    /// Sends as much as the socket takes; `gather` is the loop's scratch.
    @inline(__always)
    mutating func send(_ gather: UnsafeMutableBufferPointer<iovec>) -> WriteQueue.Outcome {
        guard let tls else { return output.flush(to: descriptor, gather: gather) }
        return output.flush(through: tls, to: descriptor)
    }

    /// Whether something waits for the socket to take it, what TLS has sealed included.
    var hasUnsent: Bool { !output.isEmpty || tls?.hasUnsent == true }

    /// Bytes that are unsent. Those that TLS has sealed count for this connection alone, though others get the same events.
    var unsentBytes: Int { output.byteCount &+ (tls?.unsentBytes ?? 0) }

    /// Forgets what is unsent, but for the rest of a frame.
    mutating func dropUnsent() { output.dropUnsent() }

    /// Forgets all that is unsent: the peer has gone.
    mutating func forgetUnsent() { output = WriteQueue() }

    // MARK: States

    /// Its TLS handshake begins; `session` is nil where it is given up, for a client that speaks in the clear.
    mutating func secure(with session: TLSSession?) { tls = session }

    /// What comes from here on is the client's own.
    mutating func opened() { if state == .securing { state = .open } }

    /// Nothing is queued any more but the last words.
    mutating func finish() { if state != .shut { state = .finishing } }

    /// All is sent. The peer reads to the end of the stream and closes.
    func endStream() { if let tls { tls.finishSending(descriptor) } else { Socket.finishSending(descriptor) } }

    /// The socket takes nothing any more, whatever the error was: nothing more goes out behind what was lost.
    mutating func broke() {
        isBroken = true
        Socket.finishSending(descriptor)
    }

    mutating func shut() {
        state = .shut
        forgetUnsent()
    }
}
