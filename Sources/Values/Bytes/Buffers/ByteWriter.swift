#if canImport(Glibc)
import Glibc
#endif

/// A growable, append-only builder of bytes that hands its memory over as `SharedBytes` without a copy.
///
/// It is for our own output: what a peer may make it hold is bounded by the limits of the target that writes.
/// Invariant: `storage` is referenced by nobody else, and `base` and `capacity` describe it.
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

    /// Appends the bytes of a literal: in place, for so its length is known, and most of them are copied by a few moves.
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

    /// Appends the UTF-8 of `string`. Not plain `append`, which a literal would be taken to mean: as a `String` it costs three
    /// times as much.
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

    /// Makes room for `capacity` more bytes and lets `fill` write some of them; it returns how many.
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

    /// Calls `body` with what is written so far.
    @inlinable public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(start: base, count: used))
    }

    /// Calls `body` with what is written so far, to be changed in place: frame headers and masking.
    @inlinable public mutating func withUnsafeMutableBytes<Result, Failure: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeMutableRawBufferPointer(start: base, count: used))
    }

    /// Forgets what is written after the first `length` bytes; the memory stays.
    @inlinable public mutating func truncate(to length: Int) {
        precondition(length >= 0 && length <= used, "truncated beyond the end")
        used = length
    }

    /// Forgets what is written; the memory stays, for a writer that is used again.
    @inlinable public mutating func removeAll() { used = 0 }

    // MARK: Ending

    /// The bytes from `start`, as an immutable block: no copy, unless most of the memory would lie idle.
    @usableFromInline package consuming func finish(from start: Int = 0) -> SharedBytes {
        precondition(start >= 0 && start <= used, "finished before the beginning")
        guard capacity <= 512 || capacity / 2 <= used else {
            return SharedBytes.copy(UnsafeRawBufferPointer(start: base + start, count: used - start))
        }
        let extent = ByteExtent(start: start, count: used - start)
        storage.withUnsafeMutablePointerToHeader { $0.pointee = extent }
        return SharedBytes(block: storage)
    }

    /// A copy of what is written, as an immutable block; the writer goes on.
    package borrowing func copy() -> SharedBytes { withUnsafeBytes { SharedBytes.copy($0) } }

    /// A copy of what is written: for tests and cold paths.
    package var array: [UInt8] { withUnsafeBytes { [UInt8]($0) } }

    /// What is written as a string, ill-formed UTF-8 repaired: for tests and logs.
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
