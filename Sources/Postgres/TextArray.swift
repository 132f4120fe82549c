/// A `text[]` parameter in PostgreSQL's array syntax (manual, 8.15.2), every element quoted.
package struct TextArray {
    /// The literal as it goes to the server.
    package private(set) var literal = "{"
    private var count = 0

    package init() {}

    /// Adds an element. The caller ends with `closed()`.
    package mutating func append(_ element: String) {
        literal.append(count == 0 ? "\"" : ",\"")
        for scalar in element.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { literal.unicodeScalars.append("\\") }
            literal.unicodeScalars.append(scalar)
        }
        literal.append("\"")
        count += 1
    }

    /// The whole literal.
    package func closed() -> String { literal + "}" }
}
