import Digests

/// SHA-256 of a text in lower-case hexadecimal, 64 characters.
func checksum(of text: String) -> String {
    var hash = SHA256()
    var text = text
    text.withUTF8 { hash.update(UnsafeRawBufferPointer($0)) }
    return hash.finish().hex
}
