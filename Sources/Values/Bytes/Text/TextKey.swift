/// One or two texts as a dictionary key, compared by bytes as in PostgreSQL. Swift compares by canonical equivalence: two
/// users with "é" in different encodings would share a queue, a rate and a revocation.
package struct TextKey: Hashable, Sendable {
    private let first: String
    private let second: String?
    private let code: Int

    /// The key of one text or two: ("a", "b") differs from ("ab").
    package init(_ first: String, _ second: String? = nil) {
        self.first = first
        self.second = second
        var hasher = Hasher()
        Self.combine(first, &hasher)
        if let second { Self.combine(second, &hasher) }
        code = hasher.finalize()
    }

    /// Compares bytes.
    package static func == (left: TextKey, right: TextKey) -> Bool {
        guard left.code == right.code, left.first.hasSameBytes(as: right.first) else { return false }
        switch (left.second, right.second) {
        case (nil, nil): return true
        case (let left?, let right?): return left.hasSameBytes(as: right)
        default: return false
        }
    }

    /// Hashes bytes.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    private static func combine(_ text: String, _ hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }
}
