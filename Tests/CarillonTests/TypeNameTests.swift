import Testing

/// A name is unique: a reader who searches for a type finds exactly one.
@Suite struct TypeNameTests {
    /// Private types are visible in one file only, and do not count.
    @Test func noTwoTopLevelTypesShareAName() throws {
        var files: [String: [String]] = [:]
        for folder in ["Sources", "Tests", "loadtest"] {
            for (path, text) in try SourceTree.texts(below: folder)
            where path.hasSuffix(".swift") && !path.contains(".build/") {
                for name in Self.types(in: text) { files[name, default: []].append("\(folder)/\(path)") }
            }
        }
        #expect(files.count > 500)
        for (name, files) in files.sorted(by: { $0.key < $1.key }) where files.count > 1 {
            Issue.record("\(name) is declared in \(files.sorted().joined(separator: " and "))")
        }
    }

    /// The top-level types that a file declares for others.
    private static func types(in text: String) -> [String] {
        let declaration = /^(?:@\w+(?:\(.*\))? +)*((?:\w+ +)*)(?:struct|class|enum|actor|protocol|typealias) +(\w+)/
        return text.matches(of: declaration.anchorsMatchLineEndings()).compactMap { match in
            ["private", "class ", "import"].contains { match.1.contains($0) } ? nil : String(match.2)
        }
    }

    @Test func typesAreFoundByTheirDeclarations() {
        let text = """
            struct One {
                struct Inner {}
            }
            @frozen public final class Two: One {}
            @Suite(.timeLimit(.minutes(1))) struct Three {}
            private enum Four {}
            fileprivate final class Five {}
            typealias Six = One
            extension One {}
            import struct Seven.Eight
            // struct Nine
            """
        #expect(Self.types(in: text) == ["One", "Two", "Three", "Six"])
    }
}
