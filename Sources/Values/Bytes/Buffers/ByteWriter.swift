#if canImport(Glibc)
import Glibc
#endif

/// A growable, append-only builder of bytes. It becomes a `SharedBytes` without a copy.
///
/// For our own output: the target that writes limits how much a peer can make it hold. Invariant: `storage` has no other
/// reference, and `base` and `capacity` describe it.
public struct ByteWriter: ~Copyable {
    @usableFromInline var storage: ByteBlock
    @usableFromInline var base: UnsafeMutablePointer<UInt8>
    @usableFromInline var capacity: Int

    @usableFromInline var used: Int

    /// Number of bytes written.
    @inlinable public var count: Int { used }

    /// An empty writer with room for `capacity` bytes; it grows by doubling.
    @inlinable public init(capacity: Int = 256) {
        let room = Swift.max(capacity, 16)
        let block = ByteBlock.allocate(capacity: room)
        storage = block
        base = block.storage
        self.capacity = room
        used = 0
    }

    /// True when nothing is written.
    @inlinable public var isEmpty: Bool { used == 0 }

    // MARK: Appending

    /// Appends one byte.
    @inlinable @inline(__always) public mutating func append(_ byte: UInt8) {
        if used == capacity { grow(by: 1) }
        base[used] = byte
        used &+= 1
    }

    /// Appends `bytes`, which must not be memory of this writer.
    @inlinable public mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        reserve(bytes.count)
        memcpy(base + used, source, bytes.count)
        used &+= bytes.count
    }

    /// Appends the bytes of a literal. Inlined, so the length is known and a few moves copy most literals.
    @inlinable @inline(__always) public mutating func append(_ literal: StaticString) {
        append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Appends an array's bytes.
    @inlinable public mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append($0) }
    }

    /// Appends a shared block's bytes.
    @inlinable public mutating func append(_ bytes: SharedBytes) {
        append(UnsafeRawBufferPointer(start: bytes.baseAddress, count: bytes.count))
    }

    /// Appends the UTF-8 of `string`. The label keeps literals out: as a `String` they cost three times as much.
    package mutating func append(utf8 string: String) {
        var string = string
        string.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends `number` in decimal.
    package mutating func append(decimal number: UInt64) {
        reserve(Decimal.roomBytes)
        used &+= Decimal.write(number, to: base + used)
    }

    /// Appends `number` in decimal, with a minus sign when negative.
    package mutating func append(decimal number: Int64) {
        if number < 0 { append(UInt8(ascii: "-")) }
        append(decimal: number.magnitude)
    }

    /// Appends `number` in decimal.
    package mutating func append(decimal number: Int) { append(decimal: Int64(number)) }

    /// Appends `bytes` as lower-case hexadecimal digits.
    package mutating func append(hex bytes: UnsafeRawBufferPointer) {
        reserve(bytes.count * 2)
        for byte in bytes {
            base[used] = Hex.digit(byte >> 4)
            base[used &+ 1] = Hex.digit(byte & 0xF)
            used &+= 2
        }
    }

    /// Makes room for `wanted` bytes and lets `fill` write some of them; `fill` returns how many.
    @inlinable public mutating func append(
        capacity wanted: Int, filling fill: (UnsafeMutableRawBufferPointer) -> Int
    ) {
        reserve(wanted)
        let written = fill(UnsafeMutableRawBufferPointer(start: base + used, count: wanted))
        precondition(written >= 0 && written <= wanted, "filled more than the capacity")
        used &+= written
    }

    /// Makes room for `wanted` more bytes.
    @inlinable public mutating func reserve(_ wanted: Int) {
        if wanted > capacity &- used { grow(by: wanted) }
    }

    // MARK: Reading back and patching

    /// Calls `body` with the bytes written so far.
    @inlinable public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(start: base, count: used))
    }

    /// Calls `body` with the bytes written so far, to change them in place: frame headers and masking.
    @inlinable public mutating func withUnsafeMutableBytes<Result, Failure: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeMutableRawBufferPointer(start: base, count: used))
    }

    /// Drops the bytes after the first `length`; the memory stays.
    @inlinable public mutating func truncate(to length: Int) {
        precondition(length >= 0 && length <= used, "truncated beyond the end")
        used = length
    }

    /// Drops all bytes; the memory stays for reuse.
    @inlinable public mutating func removeAll() { used = 0 }

    // MARK: Ending

    /// The bytes from `start` as an immutable block. Copies only when most of the memory would be unused.
    @usableFromInline package consuming func finish(from start: Int = 0) -> SharedBytes {
        precondition(start >= 0 && start <= used, "finished before the beginning")
        guard capacity <= 512 || capacity / 2 <= used else {
            return SharedBytes.copy(UnsafeRawBufferPointer(start: base + start, count: used - start))
        }
        let extent = ByteExtent(start: start, count: used - start)
        storage.withUnsafeMutablePointerToHeader { $0.pointee = extent }
        return SharedBytes(block: storage)
    }

    /// A copy as an immutable block; the writer stays usable.
    package borrowing func copy() -> SharedBytes { withUnsafeBytes { SharedBytes.copy($0) } }

    /// A copy, for tests and cold paths.
    package var array: [UInt8] { withUnsafeBytes { [UInt8]($0) } }

    /// The bytes as a string, with invalid UTF-8 repaired: for tests and logs.
    package var string: String { withUnsafeBytes { String(decoding: $0, as: UTF8.self) } }

    @usableFromInline mutating func grow(by wanted: Int) {
        let room = Swift.max(capacity * 2, used + wanted)
        let block = ByteBlock.allocate(capacity: room)
        memcpy(block.storage, base, used)
        storage = block
        base = block.storage
        capacity = room
    }
}
