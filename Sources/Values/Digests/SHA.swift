// Digests: SHA-1 for the WebSocket handshake; SHA-256, HMAC and MD5 for Pusher's signatures; comparison in constant time.
//
// Invariants: values only, no allocation; a key is kept as its two hash states, never as text. Depends on Bytes and
// OpenSSL's low-level functions (COpenSSL/shim.h says why).

import Bytes
import COpenSSL

/// A SHA-1 digest (RFC 3174), 20 bytes: only for the accept key of RFC 6455.
package struct SHA1: Sendable {
    private var words: (UInt64, UInt64, UInt32) = (0, 0, 0)

    /// The digest of both pieces together. They should be short, because they are copied.
    package init(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer = .init(start: nil, count: 0)) {
        var context = SHA_CTX()
        carillon_sha1_init(&context)
        Block.withEach(of: first.count + second.count) { room in
            room.copyMemory(from: first)
            UnsafeMutableRawBufferPointer(rebasing: room[first.count...]).copyMemory(from: second)
        } body: {
            carillon_sha1_block(&context, $0)
        }
        let pair = { (high: UInt32, low: UInt32) in (UInt64(high) << 32 | UInt64(low)).bigEndian }
        words = (pair(context.h0, context.h1), pair(context.h2, context.h3), context.h4.bigEndian)
    }

    /// Calls `body` with the 20 bytes.
    package func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        Swift.withUnsafeBytes(of: words) { body($0.part(0..<20)) }
    }
}

/// A SHA-256 digest or authentication code (FIPS 180-4), 32 bytes.
package struct SHA256Digest: Sendable {
    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    fileprivate init(finishing context: inout SHA256_CTX) {
        Swift.withUnsafeMutableBytes(of: &words) { target in
            carillon_sha256_final(&context, target.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
    }

    /// The state of a context after its last block.
    fileprivate init(state context: borrowing SHA256_CTX) {
        let state = context.h
        let pair = { (high: UInt32, low: UInt32) in (UInt64(high) << 32 | UInt64(low)).bigEndian }
        words = (pair(state.0, state.1), pair(state.2, state.3), pair(state.4, state.5), pair(state.6, state.7))
    }

    /// Calls `body` with the 32 bytes.
    package func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        Swift.withUnsafeBytes(of: words) { body($0) }
    }

    /// The digest in lower-case hexadecimal, 64 characters.
    package var hex: String { withUnsafeBytes { Hex.encode($0) } }

    /// True when `digits` are this digest in hexadecimal of either case. The time depends only on the length.
    package func matches(hex digits: UnsafeRawBufferPointer) -> Bool {
        guard digits.count == 64 else { return false }
        return withUnsafeBytes { digest in
            var difference: UInt8 = 0
            for index in 0..<32 {
                let high = digits[index &* 2].hexValue
                let low = digits[index &* 2 &+ 1].hexValue
                difference |= high == nil || low == nil ? 1 : 0
                difference |= ((high ?? 0) << 4 | (low ?? 0)) ^ digest[index]
            }
            return difference == 0
        }
    }
}

/// A SHA-256 hash in progress.
package struct SHA256: Sendable {
    private var context: SHA256_CTX

    /// The hash of no bytes yet.
    package init() {
        context = SHA256_CTX()
        carillon_sha256_init(&context)
    }

    /// Appends the part behind its length: parts that are cut otherwise have another digest.
    package mutating func update(counted part: [UInt8]) {
        withUnsafeBytes(of: UInt64(part.count)) { update($0) }
        part.withUnsafeBytes { update($0) }
    }

    /// Takes the next bytes.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        carillon_sha256_update(&context, bytes.baseAddress, bytes.count)
    }

    /// The digest of all bytes taken; more may follow.
    package func finish() -> SHA256Digest {
        var copy = context
        return SHA256Digest(finishing: &copy)
    }

    /// The digest of the one block taken so far, followed by a short message of `count` bytes that `fill` writes.
    func finishBlock(with count: Int, filling fill: (UnsafeMutableRawBufferPointer) -> Void) -> SHA256Digest {
        var copy = context
        Block.withEach(of: count, behind: 64, filling: fill) { carillon_sha256_block(&copy, $0) }
        return SHA256Digest(state: copy)
    }

    /// The digest of `bytes`.
    package static func hash(_ bytes: UnsafeRawBufferPointer) -> SHA256Digest {
        var hash = SHA256()
        hash.update(bytes)
        return hash.finish()
    }
}
