/// Text as the bytes of its UTF-8. `==` compares by canonical equivalence, and the standard library's generic walks over
/// `utf8` cost fifty instructions a byte.
extension String {
    /// Equal byte for byte, as PostgreSQL compares.
    package func hasSameBytes(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        var left = self
        var right = other
        return left.withUTF8 { left in
            right.withUTF8 { right in UnsafeRawBufferPointer(left).equals(UnsafeRawBufferPointer(right)) }
        }
    }

    /// Whether `byte` is among the bytes.
    package func holds(_ byte: UInt8) -> Bool {
        var text = self
        return text.withUTF8 { UnsafeRawBufferPointer($0).firstIndex(of: byte, from: 0) != nil }
    }
}
