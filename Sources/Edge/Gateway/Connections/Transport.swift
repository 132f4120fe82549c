import Bytes
import Clock
import Glibc
import Reactor

/// A connection's bytes: its socket, plain or with TLS, and what is still to be sent. It reads into its loop's buffer, owns
/// memory only for an unsent tail, and does not interpret the bytes.
///
/// Worst interleavings:
/// - The peer has gone, and something is sent. Input that came before counts, and is still to be read (`isBroken`).
/// - TLS has sealed something that the socket does not take. It cannot be taken back, and nothing may be sealed after it.
/// - TLS has said that no more comes while plaintext is unread. The socket will never be readable again (`hasHeardAll`).
/// - Everything is sent, but input is unread. A plain close could reset the connection and lose the last bytes, so the
///   peer's end of stream is awaited (`endStream`).
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

    // Fields that a delivery touches come first (see `ClientConnection`).
    private(set) var output = WriteQueue()
    /// Nil without TLS, and until the client's first bytes are looked at.
    private(set) var tls: TLSSession?
    let descriptor: Int32
    private(set) var state: State
    /// The socket takes nothing any more, and earlier input has still to be handled.
    private(set) var isBroken = false

    init(_ descriptor: Int32, usesTLS: Bool) {
        self.descriptor = descriptor
        state = usesTLS ? .securing : .open
    }

    // MARK: In

    // Mutating; otherwise a connection would copy it for the call.

    /// Where to read to, after `held` bytes; nil where there is no room.
    mutating func room(behind held: Int, in buffer: UnsafeMutableRawBufferPointer) -> UnsafeMutableRawBufferPointer? {
        guard held < buffer.count else { return nil }
        // TLS needs room for a record that came in part before, and takes no more from the kernel by itself.
        let end = tls == nil ? min(buffer.count, held &+ LoopBuffers.readRoom) : buffer.count
        return UnsafeMutableRawBufferPointer(rebasing: buffer[held..<end])
    }

    /// Reads what has come, as plaintext. TLS may have something to send afterwards.
    ///
    /// - Parameter rate: how often the peer may ask for new keys; each costs about ten messages. Above it: `EDQUOT`.
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

    /// Whether the peer has said that no more comes. Its socket may not show it.
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

    /// Whether something waits for the socket, including what TLS has sealed.
    var hasUnsent: Bool { !output.isEmpty || tls?.hasUnsent == true }

    /// Unsent bytes. Those that TLS has sealed are this connection's alone, even of events for many.
    var unsentBytes: Int { output.byteCount &+ (tls?.unsentBytes ?? 0) }

    /// Drops what is unsent, except the rest of a frame sent in part.
    mutating func dropUnsent() { output.dropUnsent() }

    mutating func forgetUnsent() { output = WriteQueue() }

    // MARK: States

    /// Its TLS handshake begins; `session` is nil where it is given up, for a client that speaks plain HTTP.
    mutating func secure(with session: TLSSession?) { tls = session }

    /// From now on input is the client's own.
    mutating func opened() { if state == .securing { state = .open } }

    /// Only the last words are still to be sent.
    mutating func finish() { if state != .shut { state = .finishing } }

    /// Everything is sent. The peer reads to the end of the stream and closes.
    func endStream() { if let tls { tls.finishSending(descriptor) } else { Socket.finishSending(descriptor) } }

    /// The socket takes nothing any more, for whatever reason. Nothing more is sent after what was lost.
    mutating func broke() {
        isBroken = true
        Socket.finishSending(descriptor)
    }

    mutating func shut() {
        state = .shut
        forgetUnsent()
    }
}
