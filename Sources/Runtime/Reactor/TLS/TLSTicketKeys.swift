import COpenSSL
import Clock
import Glibc

/// The keys of session tickets: the first one seals new tickets, all of them open old ones (RFC 5077 §5.5). Any thread.
///
/// From a file that several hubs share, so that a device is resumed on another hub too; or random keys, which rotate.
package final class TLSTicketKeys: Sendable {
    /// How long a ticket is good.
    package static let lifetime = Duration.seconds(24 * 3600)
    /// How long a random key seals tickets before the next one does.
    package static let period = Duration.seconds(12 * 3600)
    /// The most keys of one file; all are tried for every ticket.
    package static let keysMax = 16
    /// Bytes of one key in a file, in nginx's format: name 16, MAC key 32, cipher key 32.
    package static let keyBytes = 80
    /// Random keys kept, so that tickets stay good for their whole lifetime.
    static let randomKeysKept = 3

    private struct State {
        var keys: [UInt8]
        /// When the first key is replaced by a new one; nil: never by itself.
        var rotatesAt: Instant?
    }

    private let state: Locked<State>
    private let cipher: Cipher

    /// `@unchecked Sendable`: OpenSSL's fetched ciphers are never changed.
    private struct Cipher: @unchecked Sendable {
        let pointer: OpaquePointer
    }

    private init(_ state: State) throws(TLSError) {
        guard let cipher = EVP_CIPHER_fetch(nil, "AES-256-CBC", nil) else { throw TLSError(openSSL: "tickets") }
        self.cipher = Cipher(pointer: cipher)
        self.state = Locked(state)
    }

    deinit {
        state.withLock { Self.erase(&$0.keys) }
        EVP_CIPHER_free(cipher.pointer)
    }

    /// Random keys.
    package convenience init(now: Instant = .read()) throws(TLSError) {
        try self.init(State(keys: try Self.randomKey(), rotatesAt: now.advanced(by: Self.period)))
    }

    /// The keys of a file: concatenated, 80 bytes each.
    package convenience init(file path: String) throws(TLSError) {
        var bytes = try Self.read(path)
        guard !bytes.isEmpty, bytes.count % Self.keyBytes == 0, bytes.count <= Self.keysMax * Self.keyBytes else {
            let count = bytes.count
            Self.erase(&bytes)
            throw TLSError(
                "\(path): holds \(count) bytes, and ticket keys have \(Self.keyBytes) each, from 1 to \(Self.keysMax) of "
                    + "them: openssl rand -out FILE \(Self.keyBytes)")
        }
        try self.init(State(keys: bytes, rotatesAt: nil))
        Self.erase(&bytes)
    }

    // MARK: OpenSSL's callbacks

    /// Prepares the ciphers of a new ticket.
    ///
    /// - Returns: 1, or -1 where there is no randomness.
    func seal(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipherContext: OpaquePointer,
        _ macContext: OpaquePointer, now: Instant = .read()
    ) -> Int32 {
        guard RAND_bytes(iv, Self.ivBytes) == 1 else { return -1 }
        return state.withLock { state in
            rotate(&state, now)
            return state.keys.withUnsafeBufferPointer { keys in
                guard let key = keys.baseAddress else { return -1 }
                name.update(from: key, count: Self.nameBytes)
                return ready(key, iv, cipherContext, macContext, encrypts: 1) ? 1 : -1
            }
        }
    }

    /// Prepares the ciphers of a client's ticket.
    ///
    /// - Returns: 0 where no key fits, so that a full handshake follows; 1; 2 where the client gets a new ticket, because an
    ///   older key sealed it or it is of TLS 1.3, whose tickets are for one use (RFC 8446 §C.4); -1 on an error.
    func open(
        _ name: UnsafePointer<UInt8>, _ iv: UnsafePointer<UInt8>, _ cipherContext: OpaquePointer,
        _ macContext: OpaquePointer, isSingleUse: Bool, now: Instant = .read()
    ) -> Int32 {
        state.withLock { state in
            rotate(&state, now)
            return state.keys.withUnsafeBufferPointer { keys in
                guard let start = keys.baseAddress else { return 0 }
                for offset in stride(from: 0, to: keys.count, by: Self.keyBytes)
                where CRYPTO_memcmp(start + offset, name, Self.nameBytes) == 0 {
                    guard ready(start + offset, iv, cipherContext, macContext, encrypts: 0) else { return -1 }
                    return isSingleUse || offset > 0 ? 2 : 1
                }
                return 0
            }
        }
    }

    private func ready(
        _ key: UnsafePointer<UInt8>, _ iv: UnsafePointer<UInt8>, _ cipherContext: OpaquePointer,
        _ macContext: OpaquePointer, encrypts: Int32
    ) -> Bool {
        carillon_ticket_ciphers(cipherContext, macContext, cipher.pointer, key + 48, key + 16, iv, encrypts) == 1
    }

    /// Puts a new random key before the others, when it is due.
    private func rotate(_ state: inout State, _ now: Instant) {
        guard let due = state.rotatesAt, due <= now, var key = try? Self.randomKey() else { return }
        // After two periods without a handshake no ticket is good.
        if due.advanced(by: Self.period + Self.period) <= now { Self.erase(&state.keys) }
        var keys = key + state.keys.prefix((Self.randomKeysKept - 1) * Self.keyBytes)
        Self.erase(&state.keys)
        Self.erase(&key)
        swap(&state.keys, &keys)
        state.rotatesAt = now.advanced(by: Self.period)
    }

    // MARK: Bytes of keys

    private static let nameBytes = 16
    private static let ivBytes: Int32 = 16

    private static func randomKey() throws(TLSError) -> [UInt8] {
        var key = [UInt8](repeating: 0, count: keyBytes)
        guard RAND_bytes(&key, Int32(keyBytes)) == 1 else { throw TLSError(openSSL: "no random bytes") }
        return key
    }

    private static func erase(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
        bytes = []
    }

    private static func read(_ path: String) throws(TLSError) -> [UInt8] {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TLSError("\(path): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        // One byte more than allowed shows a file that is too long.
        var bytes = [UInt8](repeating: 0, count: keysMax * keyBytes + 1)
        var count = 0
        while count < bytes.count {
            let read = bytes.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress.map { $0 + count }, $0.count - count)
            }
            guard read >= 0 else {
                if errno == EINTR { continue }
                let code = errno
                erase(&bytes)
                throw TLSError("\(path): \(String(cString: strerror(code)))")
            }
            if read == 0 { break }
            count += read
        }
        let found = Array(bytes[..<count])
        erase(&bytes)
        return found
    }
}
