import COpenSSL
import Clock
import Glibc

/// One connection's TLS: turns the socket's ciphertext into plaintext and back.
///
/// Belongs to its loop. It owns OpenSSL's state of the connection and, only while the socket is full, ciphertext that is
/// still to be sent. The descriptor is the caller's.
package final class TLSSession {
    /// Which end of the handshake it is.
    package enum Role {
        case server, client
    }

    /// Ciphertext that one session may hold while its socket takes none: twice what it seals at a time. A peer may ask for
    /// answers without reading any (key updates, RFC 8446 §4.6.3); beyond this it is cut off.
    package static let unsentBytesMax = 2 * TLSWire.sealedBytesMax

    /// Key updates of a peer within one read (64 KiB hold 2,400, which cost 50 ms and more); beyond it the peer is cut off.
    /// Each must be answered by another if the peer asks so, and no real client sends any before millions of records.
    package static let keyUpdatesMax = 16

    private let ssl: OpaquePointer
    /// Retained for OpenSSL's callbacks during the handshake. The server may have a newer one by now.
    private let context: AnyObject
    // A loop outlives its connections, and only they keep sessions.
    private unowned(unsafe) let wire: TLSWire
    private var unsent: [UInt8] = []
    private var unsentOffset = 0
    /// The handshake is complete.
    package private(set) var isEstablished = false
    /// Whether anything has come from the peer.
    package private(set) var hasBegun = false
    /// Key updates (RFC 8446 §4.6.3) of the latest `receive`.
    package private(set) var keyUpdates = 0
    /// The rest of its allowance of key updates; the caller takes from it.
    package var updateAllowance = SmallAllowance()
    /// Detects a hello that is too long from its first bytes; nil after the handshake.
    private var hellos: ClientHelloLimit?
    /// The peer has said that no more comes. Its socket may not show it.
    package private(set) var hasEnded = false
    /// Why the handshake, or the session, failed.
    package private(set) var failure: TLSFailure?

    /// A session before its handshake.
    ///
    /// - Parameter owner: retains `context` and everything that it points to.
    init(_ context: OpaquePointer, of owner: AnyObject, _ role: Role, on wire: TLSWire) throws(TLSError) {
        guard let ssl = SSL_new(context) else { throw TLSError(openSSL: "no TLS session") }
        self.ssl = ssl
        self.context = owner
        self.wire = wire
        carillon_tls_attach(ssl, wire.bio)
        switch role {
        case .server:
            SSL_set_accept_state(ssl)
            hellos = ClientHelloLimit()
        case .client: SSL_set_connect_state(ssl)
        }
    }

    deinit {
        // Otherwise an end without close_notify would invalidate its ticket (RFC 5246 §7.2.1), and phones end so.
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
    }

    // MARK: What was negotiated

    /// Whether the handshake resumed an earlier session by its ticket.
    package var isResumed: Bool { SSL_session_reused(ssl) == 1 }
    /// Such as `TLSv1.3`.
    package var version: String { String(cString: SSL_get_version(ssl)) }

    /// What is wrong with the peer's certificate, if it was judged and found bad.
    package var certificateComplaint: String? {
        let code = SSL_get_verify_result(ssl)
        guard SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE, code != Int(X509_V_OK),
            let words = X509_verify_cert_error_string(code)
        else { return nil }
        return String(cString: words)
    }

    /// OpenSSL's state, for a client's set-up.
    func withOpenSSL<Result>(_ body: (OpaquePointer) -> Result) -> Result { body(ssl) }

    // MARK: Reading

    /// Reads what has come, continues the handshake if it is in progress, and fills `room` with plaintext.
    ///
    /// `room` must be larger than a record and its overhead. `.wouldBlock` may mean that bytes came and made no plaintext
    /// yet. After `.failed` the reason is in `failure`, and the peer has been told.
    package func receive(_ descriptor: Int32, into room: UnsafeMutableRawBufferPointer) -> TransferResult {
        // All that comes must fit into `room` as plaintext, with a record that came in part before.
        let spare = room.count &- TLSWire.recordBytes &- TLSWire.recordOverhead
        guard spare > 0 else { return .failed(ENOBUFS) }
        let received = UnsafeMutableRawBufferPointer(
            rebasing: wire.received[0..<Swift.min(spare, wire.received.count)])
        switch Socket.receive(descriptor, into: received) {
        case .bytes(let count):
            return opened(UnsafeRawBufferPointer(rebasing: received[0..<count]), descriptor, into: room)
        case let other: return other
        }
    }

    private func opened(
        _ ciphertext: UnsafeRawBufferPointer, _ descriptor: Int32, into room: UnsafeMutableRawBufferPointer
    ) -> TransferResult {
        if !hasBegun {
            hasBegun = true
            if let first = ciphertext.first,
                let stranger = SSL_is_server(ssl) == 1
                    ? TLSFailure(firstByte: first) : TLSFailure(firstByteOfServer: first)
            {
                failure = stranger
                return .failed(EPROTO)
            }
        }
        // Before OpenSSL sees it: OpenSSL allocates and clears the length that a hello states.
        if hellos?.isTooLong(ciphertext, isOldVersion: SSL_version(ssl) == TLS1_2_VERSION) == true {
            failure = .longHello
            return .failed(EPROTO)
        }
        wire.ends.pointee.key_updates = 0
        wire.ends.pointee.incoming = ciphertext.baseAddress?.assumingMemoryBound(to: UInt8.self)
        wire.ends.pointee.incoming_count = ciphertext.count
        defer { wire.clear() }
        var result = TransferResult.wouldBlock
        if isEstablished || advance() { result = read(into: room) }
        keyUpdates = Int(clamping: wire.ends.pointee.key_updates)
        // Input after them has not been looked at.
        if keyUpdates > Self.keyUpdatesMax, failure == nil { failure = .malformed }
        // Handshake flights, tickets, alerts.
        let sent = sendSealed(descriptor)
        if failure != nil { return .failed(EPROTO) }
        if case .failed(let code) = sent {
            // Earlier input of a peer that is gone counts; the next call finds it gone. One that takes no answers is cut.
            if code != ENOBUFS, case .bytes = result { return result }
            return sent
        }
        return result
    }

    /// Continues the handshake. Returns whether it is complete.
    private func advance() -> Bool {
        let code = SSL_do_handshake(ssl)
        if code == 1 {
            isEstablished = true
            hellos = nil
            // Errors of attempts that were given up on the way.
            OpenSSLErrors.clear()
            return true
        }
        // Only a flight longer than the wire wants to write, and the longest of ours fits.
        if !wantsMore(code) && failure == nil { failure = .malformed }
        return false
    }

    private func read(into room: UnsafeMutableRawBufferPointer) -> TransferResult {
        var filled = 0
        while filled < room.count {
            let count = SSL_read(ssl, room.baseAddress.map { $0 + filled }, Int32(clamping: room.count &- filled))
            guard count > 0 else {
                if SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0 {
                    OpenSSLErrors.clear()
                    hasEnded = true
                    return filled > 0 ? .bytes(filled) : .endOfStream
                }
                _ = wantsMore(count)
                break
            }
            filled &+= Int(count)
            // The usual end, without another call.
            if wire.ends.pointee.incoming_count == 0, SSL_pending(ssl) == 0 { break }
        }
        return filled > 0 ? .bytes(filled) : .wouldBlock
    }

    /// Bytes that OpenSSL keeps, apart from handshakes, for a record that came in part: the largest size; 0 between records.
    package var heldBytes: Int { isEstablished && isWithinRecord ? Self.heldBytesMax : 0 }

    private var isWithinRecord: Bool {
        if SSL_has_pending(ssl) == 1 { return true }
        // It does not report a header without a body: state `RB`.
        guard let state = SSL_rstate_string(ssl) else { return false }
        return strcmp(state, "RB") == 0
    }

    /// Room for one record.
    package static let heldBytesMax = TLSWire.recordBytes + TLSWire.recordOverhead

    /// Whether a call that returned `code` only lacks bytes of the peer. If not, sets `failure`.
    private func wantsMore(_ code: Int32) -> Bool {
        switch SSL_get_error(ssl, code) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return true
        default:
            failure = TLSFailure(openSSL: ERR_peek_last_error())
            OpenSSLErrors.clear()
            return false
        }
    }

    // MARK: Writing

    /// Ciphertext waits for the socket. Until it is writable nothing more should be sealed.
    package var hasUnsent: Bool { !unsent.isEmpty }

    /// Bytes of that ciphertext.
    package var unsentBytes: Int { unsent.count &- unsentOffset }

    /// Makes a record of at most `TLSWire.recordBytes` bytes, not empty, for `send`. Several records, where the peer asked
    /// for smaller ones (`max_fragment_length`, RFC 6066 §4).
    ///
    /// - Returns: false where the session is broken.
    package func seal(_ plaintext: UnsafeRawBufferPointer) -> Bool {
        var sealed = 0
        while sealed < plaintext.count {
            let rest = UnsafeRawBufferPointer(rebasing: plaintext[sealed...])
            let count = SSL_write(ssl, rest.baseAddress, Int32(clamping: rest.count))
            guard count > 0 else {
                _ = wantsMore(count)
                if failure == nil { failure = .malformed }
                // Otherwise the loop's next session would send it.
                wire.clear()
                return false
            }
            sealed &+= Int(count)
        }
        return true
    }

    /// Whether what is sealed should be sent before more is.
    package var isWireFull: Bool { !wire.hasRoom }

    /// The loop's buffer for gathering small frames into one record.
    package var record: UnsafeMutableRawBufferPointer { wire.record }

    /// The result of a `send`.
    package enum Sent {
        case all, blocked, broken
    }

    /// Sends what an earlier call has left, and everything sealed.
    package func send(_ descriptor: Int32) -> Sent {
        // In any case; otherwise the loop's next session would send what is left.
        defer { wire.clear() }
        if hasUnsent, sendUnsent(descriptor) == .broken { return .broken }
        if case .failed = sendSealed(descriptor) { return .broken }
        return hasUnsent ? .blocked : .all
    }

    private func sendUnsent(_ descriptor: Int32) -> Sent {
        while unsentOffset < unsent.count {
            let result = unsent.withUnsafeBytes {
                Socket.send(descriptor, UnsafeRawBufferPointer(rebasing: $0[unsentOffset...]))
            }
            switch result {
            case .bytes(let count): unsentOffset &+= count
            case .wouldBlock: return .blocked
            case .endOfStream, .failed: return .broken
            }
        }
        unsent = []
        unsentOffset = 0
        return .all
    }

    /// Sends what is sealed, and keeps what the socket does not take.
    private func sendSealed(_ descriptor: Int32) -> TransferResult {
        let sealed = wire.sealed
        guard !sealed.isEmpty else { return .wouldBlock }
        var taken = 0
        if !hasUnsent {
            switch Socket.send(descriptor, sealed) {
            case .bytes(let count): taken = count
            case .wouldBlock: break
            case .endOfStream: return .failed(EPIPE)
            case .failed(let code): return .failed(code)
            }
        }
        guard taken < sealed.count else { return .bytes(taken) }
        guard unsentBytes &+ sealed.count &- taken <= Self.unsentBytesMax else {
            return .failed(ENOBUFS)
        }
        // Drops what was sent: otherwise it would pile up for a peer that reads a little now and then and keeps asking.
        unsent.removeFirst(unsentOffset)
        unsentOffset = 0
        unsent.append(contentsOf: sealed[taken...])
        return .bytes(taken)
    }

    /// Tells the peer that no more will come (close_notify), and ends the stream. What the socket does not take is lost.
    package func finishSending(_ descriptor: Int32) {
        if isEstablished, failure == nil {
            _ = SSL_shutdown(ssl)
            OpenSSLErrors.clear()
            _ = send(descriptor)
        }
        Socket.finishSending(descriptor)
    }

    /// Begins a client's handshake: sends its hello.
    package func start(_ descriptor: Int32) -> Sent {
        _ = advance()
        let sent = send(descriptor)
        return failure == nil ? sent : .broken
    }
}
