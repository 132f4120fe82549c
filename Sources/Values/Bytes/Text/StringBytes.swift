/// Text as its UTF-8 bytes. `==` compares by canonical equivalence; generic loops over `utf8` cost 50 instructions a byte.
extension String {
    /// True when the bytes are equal, as PostgreSQL compares.
    package func hasSameBytes(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        var left = self
        var right = other
        return left.withUTF8 { left in
            right.withUTF8 { right in UnsafeRawBufferPointer(left).equals(UnsafeRawBufferPointer(right)) }
        }
    }

    /// Whether the bytes contain `byte`.
    package func holds(_ byte: UInt8) -> Bool {
        var text = self
        return text.withUTF8 { UnsafeRawBufferPointer($0).firstIndex(of: byte, from: 0) != nil }
    }
}
