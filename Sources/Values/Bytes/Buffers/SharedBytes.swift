// Bytes: memory that travels from a writer to many sockets, and the smallest tools to read and write it.
//
// Purpose: the other targets of layer 1 parse `UnsafeRawBufferPointer` and write `ByteWriter`; the engine tells `Messages`,
// and the loops above send `SharedBytes`. Invariants: a parser never keeps a pointer beyond its call; a writer is the only
// owner of its memory until `finish`, and afterwards only who has the one reference writes to it. Depends on nothing.
//
// What is small and hot is `@inlinable public`, not `package`: Swift 6.3 inlines no `package` function into another
// target (seen in the assembly; +25 % instructions on every message), and specializes no generic one.

/// Where the bytes of a `ByteBlock` lie in its storage: a frame may be built behind spare room for its header.
@usableFromInline struct ByteExtent {
    /// First byte in use.
    @usableFromInline var start: Int
    /// Number of bytes in use.
    @usableFromInline var count: Int

    @inlinable init(start: Int, count: Int) {
        self.start = start
        self.count = count
    }
}

/// The one allocation behind a `SharedBytes` or a `ByteWriter`: object header, extent, bytes.
@usableFromInline final class ByteBlock: ManagedBuffer<ByteExtent, UInt8> {
    @inlinable static func allocate(capacity: Int) -> ByteBlock {
        let buffer = ByteBlock.create(minimumCapacity: capacity) { _ in ByteExtent(start: 0, count: 0) }
        return unsafeDowncast(buffer, to: ByteBlock.self)
    }

    @inlinable var storage: UnsafeMutablePointer<UInt8> { withUnsafeMutablePointerToElements { $0 } }
    /// The header, without the check for exclusive access that `header` makes each time.
    @inlinable var extent: ByteExtent { withUnsafeMutablePointerToHeader { $0.pointee } }
}

// @unchecked Sendable: the block is written only while its creator (`make`, or the ByteWriter that owns the only
// reference) runs, or by `rewrite`, whose reference is the only one; every other access through this type is a read.
// ManagedBuffer itself cannot be made Sendable.

/// An immutable, reference-counted block of bytes with a stable address, shared by all its receivers.
///
/// One word, one allocation. The address is good for `writev` while a reference is held.
public struct SharedBytes: @unchecked Sendable {
    @usableFromInline var block: ByteBlock

    @inlinable init(block: ByteBlock) { self.block = block }

    /// A block of at most `capacity` bytes; `fill` gets them uninitialized and returns how many it wrote.
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

    /// Has `body` change the bytes, where nobody else has the block, and returns whether it did: `body` returns which of them are
    /// in use from then on, or nil where it has changed none.
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

    /// True when both are the very same block.
    @inlinable public static func === (left: SharedBytes, right: SharedBytes) -> Bool { left.block === right.block }

    /// The bytes as an array: for tests and cold paths.
    package var array: [UInt8] { withUnsafeBytes { [UInt8]($0) } }

    /// The bytes as a string, ill-formed UTF-8 repaired: for tests and cold paths.
    package var string: String { withUnsafeBytes { $0.string } }
}
