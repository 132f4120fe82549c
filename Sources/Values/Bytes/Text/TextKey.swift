/// One or two texts as a key of a map, compared byte for byte as PostgreSQL does. Swift compares text by canonical
/// equivalence: "é" in two spellings is two users, and would share one's queue, rate and revocation.
package struct TextKey: Hashable, Sendable {
    private let first: String
    private let second: String?
    private let code: Int

    /// The key of one text, or of two: ("a", "b") is no ("ab").
    package init(_ first: String, _ second: String? = nil) {
        self.first = first
        self.second = second
        var hasher = Hasher()
        Self.combine(first, &hasher)
        if let second { Self.combine(second, &hasher) }
        code = hasher.finalize()
    }

    /// Byte for byte.
    package static func == (left: TextKey, right: TextKey) -> Bool {
        guard left.code == right.code, left.first.hasSameBytes(as: right.first) else { return false }
        switch (left.second, right.second) {
        case (nil, nil): return true
        case (let left?, let right?): return left.hasSameBytes(as: right)
        default: return false
        }
    }

    /// Byte for byte.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    private static func combine(_ text: String, _ hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }
}
