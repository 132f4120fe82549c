import Bytes

/// A key for HMAC-SHA-256 (RFC 2104), kept as the two hash states after its padded blocks.
///
/// A code costs two compressions less than with the bare key, and pieces need no concatenation.
package struct HMACSHA256: Sendable {
    private let inner: SHA256
    private let outer: SHA256

    /// Prepares `key`. A key longer than a block (64 bytes) is hashed first (RFC 2104).
    package init(key: UnsafeRawBufferPointer) {
        var block = [UInt8](repeating: 0, count: 64)
        if key.count > 64 {
            SHA256.hash(key).withUnsafeBytes { block.replaceSubrange(0..<32, with: $0) }
        } else {
            block.replaceSubrange(0..<key.count, with: key)
        }
        var inner = SHA256()
        var outer = SHA256()
        block.map { $0 ^ 0x36 }.withUnsafeBytes { inner.update($0) }
        block.map { $0 ^ 0x5C }.withUnsafeBytes { outer.update($0) }
        self.inner = inner
        self.outer = outer
    }

    /// Prepares the UTF-8 of `key`.
    package init(key: String) {
        var key = key
        self = key.withUTF8 { HMACSHA256(key: UnsafeRawBufferPointer($0)) }
    }

    /// Starts a message: update it piece by piece, then pass it to `finish(_:)` of the same key.
    package func begin() -> SHA256 { inner }

    /// The code of a message started with `begin()`.
    package func finish(_ message: SHA256) -> SHA256Digest {
        finish(message.finish())
    }

    private func finish(_ inner: SHA256Digest) -> SHA256Digest {
        inner.withUnsafeBytes { inner in outer.finishBlock(with: inner.count) { $0.copyMemory(from: inner) } }
    }

    /// The code of a short message of `count` bytes, written by `fill`.
    package func authenticationCode(
        of count: Int, filling fill: (UnsafeMutableRawBufferPointer) -> Void
    ) -> SHA256Digest {
        finish(inner.finishBlock(with: count, filling: fill))
    }

    /// The code of a message in one piece.
    package func authenticationCode(for message: UnsafeRawBufferPointer) -> SHA256Digest {
        var hash = begin()
        hash.update(message)
        return finish(hash)
    }
}
