import Bytes
import Clock
import Glibc
import Reactor

/// One attempt to reach a server, and the stream of bytes that comes of it: the host's name, its addresses in turn, TLS.
/// What the bytes mean is its subclass's.
///
/// Lifecycle: `begin()` → `connected()` → `received`, `append` → `close()`, or `broke`, once.
///
/// Invariants:
/// - The loop lets go of a descriptor before it is closed: its number may be another's at once.
/// - Nothing is written before `connected()`; so no command reaches a server whose certificate was not judged.
/// - After `close()`, which any call may make, nothing is called. `broke` closes first.
class RedisSocket: EventSource {
    /// Valid transitions: idle → resolving → connecting → securing → open → closed; idle → connecting → open; from
    /// connecting to itself, with the next address; any → closed.
    private enum State { case idle, resolving, connecting, securing, open, closed }

    let loop: EventLoop
    let place: RedisURL.Place
    private let tls: TLSClient?
    private let room: RedisRoom
    private let resolver: HostResolver
    private let patience: Duration
    private var state = State.idle
    /// When the attempt is given up.
    private var end = Instant(nanoseconds: 0)
    private var lookUp: HostLookUp?
    /// Those not tried yet.
    private var addresses = Fifo<String>()
    private var socket: Int32 = -1
    private var session: TLSSession?
    private var output = RedisOutput()
    private var hasReceived = false

    /// - Parameters:
    ///   - tls: nil: no TLS.
    ///   - patience: until the subclass sets another deadline.
    init(
        loop: EventLoop, place: RedisURL.Place, tls: TLSClient?, room: RedisRoom, resolver: HostResolver,
        patience: Duration
    ) {
        self.loop = loop
        self.place = place
        self.tls = tls
        self.room = room
        self.resolver = resolver
        self.patience = patience
    }

    deinit {
        if socket >= 0 { Socket.close(socket) }
    }

    // MARK: For the subclass

    /// The stream is there.
    func connected() {}
    /// Bytes have come. They are valid during the call.
    func received(_ bytes: UnsafeRawBufferPointer) {}
    /// The stream was lost, or could not be made; the last call.
    func broke(_ trouble: RedisTrouble) {}
    /// The deadline has passed: that of the attempt, until the subclass has set another.
    func timePassed() {}

    final var isClosed: Bool { state == .closed }
    /// Bytes that wait to be written.
    final var waitingBytes: Int { output.count }

    /// Starts. Called once.
    final func begin() {
        precondition(state == .idle, "an attempt begins once")
        do throws(ReactorError) {
            try loop.add(self)
            end = Instant.read().advanced(by: patience)
            if PeerAddress(place.host) != nil {
                addresses.append(place.host)
                return tryNext(RedisTrouble(.connecting))
            }
            state = .resolving
            let lookUp = try resolver.lookUp([place.host])
            self.lookUp = lookUp
            try loop.setDescriptor(self, lookUp.descriptor, .readable)
            loop.setDeadline(self, end)
        } catch {
            lose(RedisTrouble(.connecting, "\(error)"))
        }
    }

    /// Appends a command, to be written when the tick ends; false where more than `most` bytes would wait then.
    final func append(most: Int, _ encode: (inout ByteWriter) -> Void) -> Bool {
        guard output.append(most: most, encode) else { return false }
        loop.markDirty(self)
        return true
    }

    /// Ends it without `broke`.
    final func close() {
        guard state != .closed else { return }
        state = .closed
        loop.remove(self)
        // Only after the loop has let go of the look-up's descriptor.
        _ = lookUp?.end()
        lookUp = nil
        session = nil
        closeSocket()
    }

    private func closeSocket() {
        if socket >= 0 { Socket.close(socket) }
        socket = -1
    }

    final func lose(_ trouble: RedisTrouble) {
        guard state != .closed else { return }
        close()
        broke(trouble)
    }

    // MARK: Calls of the loop

    final override func ready(_ readiness: Readiness) {
        switch state {
        case .resolving: resolved()
        case .connecting: decided()
        case .securing, .open:
            if readiness.contains(.writable) { flush() }
            if !readiness.isDisjoint(with: [.readable, .hangup]) { read() }
        case .idle, .closed: break
        }
    }

    final override func deadlineReached() {
        switch state {
        case .resolving: resolved()
        // The next address may be well.
        case .connecting: tryNext(RedisTrouble(.timeout))
        case .securing:
            // A server without TLS waits for the end of the line.
            lose(RedisTrouble(.timeout, Self.mayNotSpeakTLS))
        case .open: timePassed()
        case .idle, .closed: break
        }
    }

    final override func tickEnded() { flush() }

    // MARK: Connecting

    /// The name is resolved, or the time for that is over.
    private func resolved() {
        guard let lookUp else { return }
        self.lookUp = nil
        // The descriptor is closed with the last reference; the loop must let go of it first.
        loop.unwatch(self)
        switch lookUp.end()[place.host] {
        case .success(let found)?:
            for address in found { addresses.append(address) }
            tryNext(RedisTrouble(.hostNotFound))
        case .failure(let failure)?: lose(RedisTrouble(.hostNotFound, failure.reason))
        case nil: lose(RedisTrouble(.timeout, "while the host's name was resolved"))
        }
    }

    /// Each address has its share of the time that is left: one that is silent must not keep the hub from the next.
    private func tryNext(_ trouble: RedisTrouble) {
        loop.unwatch(self)
        closeSocket()
        let now = Instant.read()
        guard end > now, let address = addresses.popFirst() else { return lose(trouble) }
        state = .connecting
        do throws(ReactorError) {
            socket = try Socket.connect(to: address, port: place.port)
            try loop.setDescriptor(self, socket, .writable)
        } catch {
            return tryNext(RedisTrouble(.connecting, String(cString: strerror(error.code))))
        }
        loop.setDeadline(self, now.advanced(by: end.duration(since: now) / (addresses.count + 1)))
    }

    private func decided() {
        let code = Socket.takeError(socket)
        guard code == 0 else { return tryNext(RedisTrouble(.connecting, String(cString: strerror(code)))) }
        addresses.removeAll()
        loop.setDeadline(self, end)
        loop.setInterest(self, .readable)
        guard let tls, let wire = room.wire else { return opened() }
        state = .securing
        do throws(TLSError) {
            let session = try tls.session(host: place.host, on: wire)
            self.session = session
            guard session.start(socket) != .broken else { return lose(RedisTrouble(.tls, "the hello was not taken")) }
            watch()
        } catch {
            lose(RedisTrouble(.tls, error.description))
        }
    }

    private func opened() {
        state = .open
        connected()
    }

    // MARK: Moving bytes

    /// Reads a few times; what is left is reported again.
    final func read() {
        for _ in 0..<RedisLimits.readsPerTurn {
            guard state == .securing || state == .open else { return }
            let session = session
            let result = session?.receive(socket, into: room.buffer) ?? Socket.receive(socket, into: room.buffer)
            if let session, session.isEstablished, state == .securing {
                opened()
                guard state == .open else { return }
            }
            switch result {
            case .bytes(let count):
                if session == nil, !hasReceived, isOfTLS(room.buffer[0]) {
                    return lose(RedisTrouble(.tls, "this port speaks TLS: write rediss://"))
                }
                hasReceived = true
                received(UnsafeRawBufferPointer(rebasing: room.buffer[..<count]))
                guard state == .open else { return }
                // A short read has emptied the socket.
                if session == nil, count < room.buffer.count { return }
            case .wouldBlock:
                watch()
                return
            case .endOfStream: return lose(farewell())
            case .failed(let code): return lose(trouble(code))
            }
        }
        watch()
    }

    /// In TLS 1.3 a server judges its client after the client's part of the handshake (RFC 8446 §4.4.2.4), and its alert
    /// ends the stream.
    private func farewell() -> RedisTrouble {
        if session == nil, !hasReceived { return RedisTrouble(.lost, Self.maySpeakTLS) }
        if session == nil || hasReceived { return RedisTrouble(.lost, "the server closed it") }
        if state == .securing { return RedisTrouble(.tls, Self.mayNotSpeakTLS) }
        return RedisTrouble(.tls, "the server closed it; it may want another certificate of this client, or any")
    }

    private static let maySpeakTLS =
        "the server closed it without a word, as a port with TLS may do: then write rediss://"
    private static let mayNotSpeakTLS =
        "no answer in the handshake of TLS, as of a port without TLS: then write redis://, or name the port that has it"

    /// An alert, or another record of TLS (RFC 8446 §5.1): none is the first byte of a value of RESP.
    private func isOfTLS(_ byte: UInt8) -> Bool { (20...23).contains(byte) }

    private func trouble(_ code: Int32) -> RedisTrouble {
        guard let session else {
            return RedisTrouble(.lost, hasReceived ? String(cString: strerror(code)) : Self.maySpeakTLS)
        }
        if let complaint = session.certificateComplaint { return RedisTrouble(.untrusted, complaint) }
        switch session.failure {
        case .notTLS, .plainHTTP:
            return RedisTrouble(.tls, "this port does not speak TLS: write redis://, or name the port that has it")
        case nil where state == .securing: return RedisTrouble(.tls, Self.mayNotSpeakTLS)
        case .refusedByClient: return RedisTrouble(.tls, "the server refuses this client's certificate, or lack of one")
        case nil: return RedisTrouble(.lost, String(cString: strerror(code)))
        case let failure?: return RedisTrouble(.tls, failure.rawValue)
        }
    }

    /// Writes what waits, as much as the socket takes.
    private func flush() {
        guard state == .securing || state == .open else { return }
        let isWhole = session.map { flushSealed($0) } ?? flushPlain()
        if isWhole { return watch() }
        // The server's last words may say why: that there are too many clients, or an alert of TLS.
        read()
        lose(RedisTrouble(.lost, "the server takes nothing"))
    }

    /// Bytes that wait are watched for; otherwise the loop would be called for a socket with room all the time.
    private func watch() {
        guard state == .securing || state == .open else { return }
        let waits = session?.hasUnsent ?? false || state == .open && !output.isEmpty
        loop.setInterest(self, waits ? [.readable, .writable] : .readable)
    }

    /// False where the connection is broken.
    private func flushPlain() -> Bool {
        while !output.isEmpty {
            switch output.withBytes({ Socket.send(socket, $0) }) {
            case .bytes(let count): output.advance(by: count)
            case .wouldBlock: return true
            case .endOfStream, .failed: return false
            }
        }
        return true
    }

    private func flushSealed(_ session: TLSSession) -> Bool {
        if session.hasUnsent {
            guard session.send(socket) != .broken else { return false }
        }
        while state == .open, !output.isEmpty, !session.hasUnsent {
            while !output.isEmpty, !session.isWireFull {
                let count = min(output.count, TLSWire.recordBytes)
                guard output.withBytes(most: count, { session.seal($0) }) else { return false }
                output.advance(by: count)
            }
            guard session.send(socket) != .broken else { return false }
        }
        return true
    }
}
