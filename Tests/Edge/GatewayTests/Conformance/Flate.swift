import CZlib

/// A client's side of permessage-deflate (RFC 7692 §7.2), made with zlib and nothing of the product. Each message is
/// independent: the hub agrees to nothing else.
enum Flate {
    struct Failure: Error {
        let reason: String
    }

    private static let tail: [UInt8] = [0, 0, 0xFF, 0xFF]

    static func deflate(_ bytes: [UInt8], windowBits: Int32 = 15) throws -> [UInt8] {
        var stream = z_stream()
        let size = Int32(MemoryLayout<z_stream>.size)
        guard deflateInit2_(&stream, 6, Z_DEFLATED, -windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION, size) == Z_OK
        else {
            throw Failure(reason: "deflateInit2")
        }
        defer { deflateEnd(&stream) }
        var compressed = try run(&stream, bytes) { CZlib.deflate(&$0, Z_SYNC_FLUSH) }
        guard compressed.suffix(4) == tail[...] else { throw Failure(reason: "no sync flush") }
        compressed.removeLast(4)
        return compressed
    }

    /// The message in such a payload, which must not need a larger window than agreed.
    static func inflate(_ payload: [UInt8], windowBits: Int32) throws -> [UInt8] {
        var stream = z_stream()
        let size = Int32(MemoryLayout<z_stream>.size)
        guard inflateInit2_(&stream, -windowBits, ZLIB_VERSION, size) == Z_OK else {
            throw Failure(reason: "inflateInit2")
        }
        defer { inflateEnd(&stream) }
        return try run(&stream, payload + tail) { CZlib.inflate(&$0, Z_SYNC_FLUSH) }
    }

    private static func run(
        _ stream: inout z_stream, _ bytes: [UInt8], _ step: (inout z_stream) -> Int32
    ) throws -> [UInt8] {
        var bytes = bytes
        var result: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        try bytes.withUnsafeMutableBufferPointer { input in
            stream.next_in = input.baseAddress
            stream.avail_in = UInt32(input.count)
            repeat {
                let count = try chunk.withUnsafeMutableBufferPointer { output in
                    stream.next_out = output.baseAddress
                    stream.avail_out = UInt32(output.count)
                    let code = step(&stream)
                    guard code == Z_OK || code == Z_BUF_ERROR else { throw Failure(reason: "zlib: \(code)") }
                    return output.count - Int(stream.avail_out)
                }
                result += chunk[..<count]
            } while stream.avail_out == 0
            if stream.avail_in > 0 { throw Failure(reason: "\(stream.avail_in) bytes left over") }
        }
        return result
    }
}
