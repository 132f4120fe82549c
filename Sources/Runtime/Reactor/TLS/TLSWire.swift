import COpenSSL
import Glibc

// TLS: OpenSSL between a socket and whoever reads and writes it.
//
// A `TLSServer` holds what the listeners share: contexts made of the operator's files, ticket keys, and the way to
// replace them. Each loop has a `TLSWire`, ciphertext on its way to or from the socket in use; each connection a
// `TLSSession`. Invariants: after a session's call nothing is left on the wire; no plaintext waits inside OpenSSL, so
// that the socket's readiness tells all there is to read; OpenSSL's error queue is empty before and after each call.

/// One loop's ciphertext, in both directions, for the session that is called at the time.
///
/// OpenSSL reads and writes this memory instead of descriptors, so that many records leave by one system call, and a
/// session has no BIO of its own: those alone were half a kilobyte for each.
package final class TLSWire {
    /// The most bytes read from a socket at a time, and room for as many records to be sent.
    package static let receiveBytes = 64 << 10
    /// Ciphertext from which on it is sent before more is sealed: four records of the largest size.
    package static let sealedBytesMax = 4 * TLSWire.recordBytes
    /// The most plaintext of one record (RFC 8446 §5.1).
    package static let recordBytes = 16 << 10
    /// Beside its plaintext, what a record may take: header, nonce, tag, type, padding.
    package static let recordOverhead = 512
    /// What is sealed before it is sent, with a record more, be it cut into 512 bytes each; and a server's whole flight with
    /// a long chain of certificates.
    private static let outgoingCapacity = sealedBytesMax + 64 << 10

    /// What OpenSSL's end of the wire points to; it does not move.
    let ends: UnsafeMutablePointer<carillon_tls_wire>
    let bio: OpaquePointer
    /// Bytes as they come from a socket.
    let received: UnsafeMutableRawBufferPointer
    private let outgoing: UnsafeMutableRawBufferPointer
    /// Small frames gathered into one record.
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
        // The sessions' references are gone: they belong to the loop that this belongs to.
        BIO_free(bio)
        OPENSSL_cleanse(received.baseAddress, received.count)
        OPENSSL_cleanse(record.baseAddress, record.count)
        ends.deallocate()
        outgoing.deallocate()
        received.deallocate()
        record.deallocate()
    }

    /// Ciphertext to be sent.
    var sealed: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: ends.pointee.outgoing, count: ends.pointee.outgoing_count)
    }

    /// Whether more may be sealed before what is there is sent.
    var hasRoom: Bool { ends.pointee.outgoing_count < Self.sealedBytesMax }

    /// Forgets what is on the wire.
    func clear() {
        ends.pointee.incoming_count = 0
        ends.pointee.outgoing_count = 0
    }

    /// How OpenSSL gets at a wire; made once and never freed.
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

    /// A reason in words, followed by what OpenSSL says about its last failure; empties OpenSSL's error queue.
    init(openSSL description: String) {
        self.description = "\(description): \(OpenSSLErrors.takeLast())"
    }
}

/// The calling thread's queue of OpenSSL's errors.
enum OpenSSLErrors {
    /// Empties the queue: an error left there would be taken for the next connection's.
    @inline(__always)
    static func clear() {
        ERR_clear_error()
    }

    /// The words for the newest error; the queue is empty afterwards.
    static func takeLast() -> String {
        let code = ERR_peek_last_error()
        ERR_clear_error()
        guard code != 0, let words = ERR_reason_error_string(code) else { return "no reason given" }
        return String(cString: words)
    }
}
