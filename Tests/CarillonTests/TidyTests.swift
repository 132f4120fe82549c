import Foundation
import Testing

/// What a reader meets in every file: its length, its lines' width, its words, and what is said of each declaration.
@Suite(.timeLimit(.minutes(15)))
struct TidyTests {
    private static let folders = ["Sources", "Tests", "sql", "loadtest", "deploy"]
    /// Not read by people, made by a program, or never changed again.
    private static let exceptions = [
        "Tests/Corpus/": "inputs for parsers",
        "sql/embed/files.c": "made from the files of sql",
        "sql/migrations/": "never changed once released",
        "Tests/Releases/": "what a release had",
    ]

    /// The tree's files with one of these extensions, by path.
    private static func files(_ extensions: Set<String>, below folders: [String] = folders) throws -> [(String, String)]
    {
        var files: [(String, String)] = []
        for folder in folders {
            let root = Page.root.appending(path: folder)
            for name in try FileManager.default.subpathsOfDirectory(atPath: root.path).sorted() {
                let path = "\(folder)/\(name)"
                guard extensions.contains((name as NSString).pathExtension), !path.contains("/."),
                    !exceptions.keys.contains(where: path.hasPrefix)
                else { continue }
                files.append((path, try Page(path).text))
            }
        }
        return files
    }

    private static func report(_ files: [(String, String)], _ what: String, _ rule: (String) -> [Int]) {
        for (path, text) in files {
            for line in rule(text) { Issue.record("\(path):\(line): \(what)") }
        }
    }

    @Test func filesAreShort() throws {
        let files = try Self.files(["swift", "sql", "py", "c", "h", "js", "css", "html"])
        #expect(files.count > 800)
        Self.report(files, "a file has at most \(TextRules.linesMax) lines", TextRules.surplus)
    }

    @Test func linesAreNarrow() throws {
        let most = TextRules.columnsMax
        let swift = try Self.files(["swift"]) + [("Package.swift", Page("Package.swift").text)]
        Self.report(swift, "wider than \(most) columns") { TextRules.wideLines(of: $0) }
        Self.report(try Self.files(["py", "c", "h", "js", "ts"]), "wider than \(most) columns") {
            TextRules.widerLines(of: $0, most)
        }
        // A line of a test of SQL holds a case with the rows that it expects.
        let sql = try Self.files(["sql"]).filter { !$0.0.hasPrefix("sql/tests/") }
        #expect(sql.count > 40)
        Self.report(sql, "wider than \(TextRules.sqlColumnsMax) columns") {
            TextRules.widerLines(of: $0, TextRules.sqlColumnsMax)
        }
    }

    /// The pages, from the root's on.
    private static func pages() throws -> [(String, String)] {
        let own = try FileManager.default.contentsOfDirectory(atPath: Page.root.path).filter { $0.hasSuffix(".md") }
        return try own.sorted().map { ($0, try Page($0).text) } + files(["md"])
    }

    @Test func pagesLinesAreNarrow() throws {
        let pages = try Self.pages()
        #expect(pages.count > 12)
        Self.report(pages, "wider than \(TextRules.pageColumnsMax) columns", TextRules.widePageLines)
    }

    @Test func wordsArePlain() throws {
        let scripts = ["Makefile", "Package.swift", "deploy/environment.example", "deploy/carillon.service"]
        let files =
            try Self.files(["swift", "sql", "py", "c", "h", "js", "css", "html", "yml", "yaml", "txt"]) + Self.pages()
            + scripts.map { ($0, try Page($0).text) }
        Self.report(files, "say who or what is meant", TextRules.unplainLines)
    }

    @Test func declarationsSayWhatTheyAre() throws {
        let files = try Self.files(["swift"], below: ["Sources"])
        #expect(files.count > 350)
        Self.report(files, "a declaration for other targets has a comment", TextRules.undocumentedLines)
    }

    // MARK: The rules themselves

    @Test func filesAreCountedToTheirBound() {
        #expect(TextRules.surplus(of: String(repeating: "\n", count: 500)) == [])
        #expect(TextRules.surplus(of: String(repeating: "\n", count: 501)) == [501])
        #expect(TextRules.surplus(of: String(repeating: "\n", count: 500) + "x") == [501])
    }

    @Test func linesAreMeasuredToTheirBound() {
        let (fits, wide) = (String(repeating: "ü", count: 125), String(repeating: "ü", count: 126))
        #expect(TextRules.wideLines(of: "\(fits)\n\(wide)\n") == [2])
        #expect(TextRules.wideLines(of: "\"\(wide)\"\n\"\"\"\n\(wide)\n\"\"\"\n\(wide)") == [5])
        #expect(TextRules.widerLines(of: "\(fits)\n\"\(wide)\"", 125) == [2])
        let row = String(repeating: "|", count: 121)
        #expect(TextRules.widePageLines(of: "\(row)\n \(row.dropFirst(2))\n \(row.dropFirst())") == [3])
    }

    @Test func unplainWordsAreFound() {
        // Joined, so that this file has none of them.
        let words = ["Who·ever", "aWho·everTest", "like·wise", "the same· of", "what is· none", "H·e", "h·is", "h·im"]
        for word in words.map({ $0.replacing("·", with: "") }) {
            #expect(TextRules.unplainLines(of: "a\nb \(word) c") == [2], "\(word)")
        }
        #expect(TextRules.unplainLines(of: "func ·whoAsks".replacing("·", with: "")) == [1])
        #expect(TextRules.unplainLines(of: "    /// ·The same as a.".replacing("·", with: "")) == [1])
        #expect(TextRules.unplainLines(of: "-- ·care.a: the same at an instant.".replacing("·", with: "")) == [1])
        for fine in ["the history", "she", "other", "who is who", "funcwhoAsks", "/// a\n/// The same b", "likewise2"] {
            #expect(TextRules.unplainLines(of: fine) == [], "\(fine)")
        }
    }

    @Test func undocumentedDeclarationsAreFound() {
        let text = """
            /// Said.
            package struct A {
                package let a = 1
                /// Said.
                @inlinable @inline(__always)
                package func b() {}
                @inlinable package static func c() {}

                package private(set) var d = 1
                package override func e() {}
                let f = "package let f"
                // package let g
                /// Said.

                public init() {}
            }
            public import H
            """
        #expect(TextRules.undocumentedLines(of: text) == [3, 7, 9, 15])
    }
}
