/// A `text[]` parameter in PostgreSQL's array syntax (manual, 8.15.2), every element quoted.
package struct TextArray {
    /// The literal as it goes to the server.
    package private(set) var literal = "{"
    private var count = 0

    package init() {}

    /// Adds an element. The caller ends with `closed()`.
    package mutating func append(_ element: String) {
        literal.append(count == 0 ? "\"" : ",\"")
        if Self.isPlain(element) {
            literal.append(element)
        } else {
            for scalar in element.unicodeScalars {
                if scalar == "\"" || scalar == "\\" { literal.unicodeScalars.append("\\") }
                literal.unicodeScalars.append(scalar)
            }
        }
        literal.append("\"")
        count += 1
    }

    /// Nearly all elements: nothing in them to escape.
    private static func isPlain(_ element: String) -> Bool {
        var element = element
        return element.withUTF8 { bytes in
            for byte in bytes where byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return false }
            return true
        }
    }

    /// The whole literal.
    package func closed() -> String { literal + "}" }
}
