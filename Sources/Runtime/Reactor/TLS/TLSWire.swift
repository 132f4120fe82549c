import COpenSSL
import Glibc

// TLS: OpenSSL between a socket and its user.
//
// A `TLSServer` holds what the listeners share: contexts made from the operator's files, ticket keys, and the way to replace
// them. Each loop has a `TLSWire`, with ciphertext to or from the socket in use; each connection has a `TLSSession`.
// Invariants: after a session's call the wire is empty; no plaintext waits inside OpenSSL, so the socket's readiness covers
// everything there is to read; OpenSSL's error queue is empty before and after each call.

/// One loop's ciphertext, in both directions, for the session being called. OpenSSL reads and writes this memory instead of
/// descriptors: many records leave by one system call, and no session has a BIO of its own, half a kilobyte each.
package final class TLSWire {
    /// The most bytes read from a socket at a time.
    package static let receiveBytes = 64 << 10
    /// Sealed bytes above which they are sent before more is sealed: four records of the largest size.
    package static let sealedBytesMax = 4 * TLSWire.recordBytes
    /// The most plaintext of one record (RFC 8446 §5.1).
    package static let recordBytes = 16 << 10
    /// What a record takes beside its plaintext: header, nonce, tag, type, padding.
    package static let recordOverhead = 512
    /// Room for what is sealed before it is sent and one more record, even if cut into 512 bytes each; and for a server's
    /// whole flight with a long chain of certificates.
    private static let outgoingCapacity = sealedBytesMax + 64 << 10

    /// OpenSSL's end of the wire points to it; it does not move.
    let ends: UnsafeMutablePointer<carillon_tls_wire>
    let bio: OpaquePointer
    /// Bytes as they come from a socket.
    let received: UnsafeMutableRawBufferPointer
    private let outgoing: UnsafeMutableRawBufferPointer
    /// For gathering small frames into one record.
    package let record: UnsafeMutableRawBufferPointer

    /// - Throws: `TLSError` where OpenSSL has no memory.
    package init() throws(TLSError) {
        ends = .allocate(capacity: 1)
        outgoing = .allocate(byteCount: Self.outgoingCapacity, alignment: 64)
        received = .allocate(byteCount: Self.receiveBytes, alignment: 64)
        record = .allocate(byteCount: Self.recordBytes, alignment: 64)
        ends.initialize(
            to: carillon_tls_wire(
                incoming: nil, incoming_count: 0,
                outgoing: outgoing.baseAddress?.assumingMemoryBound(to: UInt8.self), outgoing_count: 0,
                outgoing_capacity: Self.outgoingCapacity, key_updates: 0,
                key_updates_max: TLSSession.keyUpdatesMax))
        guard let method = Self.method.pointer, let bio = carillon_wire_bio(method, ends) else {
            ends.deallocate()
            outgoing.deallocate()
            received.deallocate()
            record.deallocate()
            throw TLSError("OpenSSL has no memory")
        }
        self.bio = bio
    }

    deinit {
        // The sessions' references are gone: they belong to this loop too.
        BIO_free(bio)
        OPENSSL_cleanse(received.baseAddress, received.count)
        OPENSSL_cleanse(record.baseAddress, record.count)
        ends.deallocate()
        outgoing.deallocate()
        received.deallocate()
        record.deallocate()
    }

    var sealed: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: ends.pointee.outgoing, count: ends.pointee.outgoing_count)
    }

    /// Whether more may be sealed before what is there is sent.
    var hasRoom: Bool { ends.pointee.outgoing_count < Self.sealedBytesMax }

    func clear() {
        ends.pointee.incoming_count = 0
        ends.pointee.outgoing_count = 0
    }

    /// OpenSSL's access to a wire; made once and never freed.
    private static let method = Method()

    /// `@unchecked Sendable`: written before it is shared, and never again.
    private struct Method: @unchecked Sendable {
        let pointer = carillon_wire_method()
    }
}

/// Why TLS could not be set up, for the operator: which file, if it is about one, and the reason.
package struct TLSError: Error, CustomStringConvertible {
    /// One sentence, without contents of any file.
    package let description: String

    /// A reason in words.
    package init(_ description: String) {
        self.description = description
    }

    /// A reason in words, followed by OpenSSL's text for its last error; empties OpenSSL's error queue.
    init(openSSL description: String) {
        self.description = "\(description): \(OpenSSLErrors.takeLast())"
    }
}

/// The calling thread's queue of OpenSSL errors.
enum OpenSSLErrors {
    /// Empties the queue: an error left there would be taken for the next connection's.
    @inline(__always)
    static func clear() {
        ERR_clear_error()
    }

    /// The text of the newest error; the queue is empty afterwards.
    static func takeLast() -> String {
        let code = ERR_peek_last_error()
        ERR_clear_error()
        guard code != 0, let words = ERR_reason_error_string(code) else { return "no reason given" }
        return String(cString: words)
    }
}
