import Glibc

/// Strings laid out as C wants them: a list of pointers, with a NULL after the last.
///
/// Invariant: no string holds a NUL byte, so that PostgreSQL sees each to its end. (`user\0x` cut short would be
/// another user.)
struct CStringList {
    private var bytes: ContiguousArray<CChar> = []
    private var offsets: ContiguousArray<Int?> = []

    var count: Int { offsets.count }

    /// `nil` where a string holds a NUL.
    init?(_ strings: [String?]) {
        for string in strings {
            guard let string else {
                offsets.append(nil)
                continue
            }
            guard append(string) else { return nil }
        }
    }

    /// For strings known to hold no NUL.
    init(unchecked strings: [String]) {
        for string in strings { _ = append(string) }
    }

    /// The pointers live as long as the call.
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

    /// False, and nothing appended, where the string holds a NUL.
    private mutating func append(_ string: String) -> Bool {
        var string = string
        return string.withUTF8 { text in
            guard text.baseAddress.map({ memchr($0, 0, text.count) == nil }) ?? true else { return false }
            offsets.append(bytes.count)
            text.withMemoryRebound(to: CChar.self) { bytes.append(contentsOf: $0) }
            bytes.append(0)
            return true
        }
    }
}
