// Bytes: memory that one writer fills and many sockets send, and the smallest tools to read and write it.
//
// Purpose: the other targets of layer 1 parse `UnsafeRawBufferPointer` and write `ByteWriter`. The engine produces
// `Messages`, and the loops above send `SharedBytes`. Invariants: a parser never keeps a pointer beyond its call; a writer
// is the only owner of its memory until `finish`; then only a sole reference may write. Depends on nothing.
//
// Small hot functions are `@inlinable public`, not `package`: Swift 6.3 neither inlines nor specializes `package` functions
// in other targets (seen in the assembly: +25 % instructions for every message).

/// The range of a `ByteBlock`'s storage in use: a frame may be built after spare room for its header.
@usableFromInline struct ByteExtent {
    // 32 bits, because there are many small blocks, one for each user: none has 4 GB.
    @usableFromInline let first: UInt32
    @usableFromInline let length: UInt32

    @inlinable init(start: Int, count: Int) {
        first = UInt32(truncatingIfNeeded: start)
        length = UInt32(truncatingIfNeeded: count)
    }

    @inlinable var start: Int { Int(truncatingIfNeeded: first) }
    @inlinable var count: Int { Int(truncatingIfNeeded: length) }
}

/// The allocation of a `SharedBytes` or a `ByteWriter`: object header, extent, bytes.
@usableFromInline final class ByteBlock: ManagedBuffer<ByteExtent, UInt8> {
    @inlinable static func allocate(capacity: Int) -> ByteBlock {
        precondition(capacity <= Int(UInt32.max), "a block of 4 GB")
        let buffer = ByteBlock.create(minimumCapacity: capacity) { _ in ByteExtent(start: 0, count: 0) }
        return unsafeDowncast(buffer, to: ByteBlock.self)
    }

    @inlinable var storage: UnsafeMutablePointer<UInt8> { withUnsafeMutablePointerToElements { $0 } }
    /// The header without the exclusivity check that `header` makes each time.
    @inlinable var extent: ByteExtent { withUnsafeMutablePointerToHeader { $0.pointee } }
}

// @unchecked Sendable: only three writers exist: `make`, the `ByteWriter` that has the only reference, and `rewrite` with
// the only reference. All other access through this type reads. `ManagedBuffer` itself cannot be made Sendable.

/// An immutable, reference-counted block of bytes at a stable address, shared by all receivers.
///
/// One word, one allocation. The address is valid for `writev` while a reference is held.
public struct SharedBytes: @unchecked Sendable {
    @usableFromInline var block: ByteBlock

    @inlinable init(block: ByteBlock) { self.block = block }

    /// A block of at most `capacity` bytes. `fill` gets them uninitialized and returns how many it wrote.
    @inlinable public static func make(
        capacity: Int, filling fill: (UnsafeMutableRawBufferPointer) -> Int
    ) -> SharedBytes {
        let block = ByteBlock.allocate(capacity: capacity)
        let count = fill(UnsafeMutableRawBufferPointer(start: block.storage, count: capacity))
        precondition(count >= 0 && count <= capacity, "filled more than the capacity")
        block.withUnsafeMutablePointerToHeader { $0.pointee = ByteExtent(start: 0, count: count) }
        return SharedBytes(block: block)
    }

    /// A copy of `bytes`.
    package static func copy(_ bytes: UnsafeRawBufferPointer) -> SharedBytes {
        make(capacity: bytes.count) { target in
            target.copyMemory(from: bytes)
            return bytes.count
        }
    }

    /// A copy of the UTF-8 of `string`.
    package static func copy(_ string: String) -> SharedBytes {
        var string = string
        return string.withUTF8 { copy(UnsafeRawBufferPointer($0)) }
    }

    /// Number of bytes.
    @inlinable public var count: Int { block.extent.count }

    /// True when there is no byte.
    @inlinable public var isEmpty: Bool { block.extent.count == 0 }

    /// Address of the first byte, valid while the caller holds a reference.
    @inlinable public var baseAddress: UnsafeRawPointer { UnsafeRawPointer(block.storage + block.extent.start) }

    /// Calls `body` with the bytes.
    @inlinable public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(start: baseAddress, count: block.extent.count))
    }

    /// Lets `body` change the bytes if the block is not shared, and returns whether it did. `body` returns the range then in
    /// use, or nil when it changed nothing.
    @inlinable @inline(__always) mutating func rewrite(_ body: (UnsafeMutableRawBufferPointer) -> Range<Int>?) -> Bool {
        guard isKnownUniquelyReferenced(&block) else { return false }
        let extent = block.extent
        guard let used = body(UnsafeMutableRawBufferPointer(start: block.storage + extent.start, count: extent.count))
        else { return false }
        precondition(used.lowerBound >= 0 && used.upperBound <= extent.count, "more than the block has")
        block.withUnsafeMutablePointerToHeader {
            $0.pointee = ByteExtent(start: extent.start + used.lowerBound, count: used.count)
        }
        return true
    }

    /// True when both are the same block.
    @inlinable public static func === (left: SharedBytes, right: SharedBytes) -> Bool { left.block === right.block }

    /// The bytes as an array, for tests and cold paths.
    package var array: [UInt8] { withUnsafeBytes { [UInt8]($0) } }

    /// The bytes as a string with invalid UTF-8 repaired, for tests and cold paths.
    package var string: String { withUnsafeBytes { $0.string } }
}
