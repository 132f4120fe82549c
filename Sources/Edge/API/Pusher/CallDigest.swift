import Bytes
import Digests
import HTTP
import Pusher

/// Identifies what a publish asks for, independent of its signature: two calls with the same digest are the same call.
struct CallDigest: Hashable {
    private let high: UInt64
    private let low: UInt64

    /// Its 16 bytes.
    var bytes: [UInt8] { withUnsafeBytes(of: high) { Array($0) } + withUnsafeBytes(of: low) { Array($0) } }

    /// Hashes the path, the body, and the parameters that do not belong to the signature.
    init(path: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer, _ parameters: CallParameters) {
        var rest = ByteWriter(capacity: 64)
        parameters.append(canonicalTo: &rest) { $0.hasPrefix("auth_") || $0.equals("body_md5") }
        var hash = SHA256()
        hash.update(path)
        // A path contains no line feed.
        hash.update(("\n" as StaticString).bytes)
        rest.withUnsafeBytes { hash.update($0) }
        hash.update(("\n" as StaticString).bytes)
        hash.update(body)
        (high, low) = hash.finish().withUnsafeBytes {
            ($0.load(as: UInt64.self), $0.load(fromByteOffset: 8, as: UInt64.self))
        }
    }
}
