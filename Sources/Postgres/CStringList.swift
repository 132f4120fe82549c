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
            guard !string.utf8.contains(0) else { return nil }
            append(string)
        }
    }

    /// For strings known to hold no NUL.
    init(unchecked strings: [String]) {
        for string in strings { append(string) }
    }

    /// The pointers live as long as the call.
    func withPointers<Value>(_ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Value) -> Value {
        bytes.withUnsafeBufferPointer { bytes in
            withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: offsets.count + 1) { pointers in
                for (index, offset) in offsets.enumerated() {
                    pointers.initializeElement(at: index, to: offset.flatMap { offset in bytes.baseAddress.map { $0 + offset } })
                }
                pointers.initializeElement(at: offsets.count, to: nil)
                guard let base = UnsafePointer(pointers.baseAddress) else {
                    preconditionFailure("a temporary allocation of at least one element has an address")
                }
                return body(base)
            }
        }
    }

    private mutating func append(_ string: String) {
        offsets.append(bytes.count)
        bytes.append(contentsOf: string.utf8.lazy.map { CChar(bitPattern: $0) })
        bytes.append(0)
    }
}
