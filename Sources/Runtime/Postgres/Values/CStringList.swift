import Glibc

/// Strings as a C list: an array of pointers that ends with NULL.
///
/// Invariant: no string holds a NUL byte, so PostgreSQL sees it whole. (`user\0x` cut short would be another user.)
package struct CStringList: Sendable {
    private var bytes: ContiguousArray<CChar> = []
    private var offsets: ContiguousArray<Int?> = []

    /// The number of strings and NULLs.
    package var count: Int { offsets.count }
    /// The bytes of the strings, terminators included.
    package var byteCount: Int { bytes.count }

    /// An empty list.
    package init() {}

    /// Nil if a string holds a NUL byte.
    package init?(_ strings: [String?]) {
        offsets.reserveCapacity(strings.count)
        bytes.reserveCapacity(strings.reduce(0) { $0 + ($1?.utf8.count ?? 0) + 1 })
        for string in strings {
            guard let string else {
                appendNull()
                continue
            }
            guard append(string) else { return nil }
        }
    }

    /// For strings known to hold no NUL.
    init(unchecked strings: [String]) {
        for string in strings { _ = append(string) }
    }

    /// Calls `body` with the pointers, which are valid only during the call.
    func withPointers<Value>(_ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Value) -> Value {
        bytes.withUnsafeBufferPointer { bytes in
            withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: offsets.count + 1) { pointers in
                for (index, offset) in offsets.enumerated() {
                    pointers.initializeElement(
                        at: index, to: offset.flatMap { offset in bytes.baseAddress.map { $0 + offset } })
                }
                pointers.initializeElement(at: offsets.count, to: nil)
                guard let base = UnsafePointer(pointers.baseAddress) else {
                    preconditionFailure("a temporary allocation of at least one element has an address")
                }
                return body(base)
            }
        }
    }

    /// Calls `body` with the bytes of one string, which are valid only during the call; nil for NULL.
    package func withBytes<Value>(of index: Int, _ body: (UnsafeRawBufferPointer?) -> Value) -> Value {
        guard let offset = offsets[index] else { return body(nil) }
        return bytes.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return body(nil) }
            return body(UnsafeRawBufferPointer(start: start + offset, count: strlen(start + offset)))
        }
    }

    /// Appends a NULL.
    package mutating func appendNull() {
        offsets.append(nil)
    }

    /// Appends a string. Returns false and appends nothing if the string holds a NUL byte.
    package mutating func append(_ string: String) -> Bool {
        var string = string
        return string.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends the bytes of a text. Returns false and appends nothing if they hold a NUL byte.
    package mutating func append(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.baseAddress.map({ memchr($0, 0, text.count) == nil }) ?? true else { return false }
        offsets.append(bytes.count)
        text.withMemoryRebound(to: CChar.self) { bytes.append(contentsOf: $0) }
        bytes.append(0)
        return true
    }
}
