import Glibc

/// Bytes of an instance, as known to the Swift runtime; glibc allocates the next larger block of 16 n + 8 bytes.
package func instanceBytes(of type: AnyClass) -> Int {
    typealias Size = @convention(c) (UnsafeRawPointer) -> Int
    // Swift._class_getInstancePositiveExtentSize, which the standard library does not export.
    guard let symbol = dlsym(nil, "$ss36_class_getInstancePositiveExtentSizeySiyXlXpF") else { return .max }
    return unsafeBitCast(symbol, to: Size.self)(unsafeBitCast(type, to: UnsafeRawPointer.self))
}

/// Calls `body` with the UTF-8 of `text`, in memory of exactly that size.
package func withBytes<Result, Failure: Error>(
    _ text: String, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
) throws(Failure) -> Result {
    try withBytes(Array(text.utf8), body)
}

/// Calls `body` with `bytes`, in memory of exactly that size.
package func withBytes<Result, Failure: Error>(
    _ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
) throws(Failure) -> Result {
    try withMutableBytes(bytes) { buffer throws(Failure) in try body(UnsafeRawBufferPointer(buffer)) }
}

/// Calls `body` with a mutable copy of `bytes`, in memory of exactly that size: a sanitizer sees any access beyond it.
package func withMutableBytes<Result, Failure: Error>(
    _ bytes: [UInt8], _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
) throws(Failure) -> Result {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { buffer.deallocate() }
    buffer.copyBytes(from: bytes)
    return try body(buffer)
}
