/// The 64-byte blocks of a message for SHA-1 and SHA-256 (FIPS 180-4 §5.1.1). Built here, because OpenSSL's buffering of a
/// short message costs a quarter of its hash.
enum Block {
    /// Calls `body` with the address of each block of a message's last `count` bytes, which `fill` writes. `before` bytes,
    /// in whole blocks, were hashed already.
    @inline(__always)
    static func withEach(
        of count: Int, behind before: Int = 0, filling fill: (UnsafeMutableRawBufferPointer) -> Void,
        body: (UnsafeRawPointer) -> Void
    ) {
        // One bit and the length in eight bytes follow the message.
        let total = ((count + 8) / 64 + 1) * 64
        withUnsafeTemporaryAllocation(byteCount: total, alignment: 8) { room in
            guard let base = room.baseAddress else { return }
            (base + count).initializeMemory(as: UInt8.self, repeating: 0, count: total - count)
            fill(UnsafeMutableRawBufferPointer(start: base, count: count))
            room[count] = 0x80
            base.storeBytes(of: UInt64((before + count) * 8).bigEndian, toByteOffset: total - 8, as: UInt64.self)
            for start in stride(from: 0, to: total, by: 64) { body(base + start) }
        }
    }
}
