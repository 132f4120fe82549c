import Foundation

/// Rules for every text that people write here, each a function from a text to the numbers of the lines that break it.
enum TextRules {
    /// Lines of a source file.
    static let linesMax = 500
    /// Columns of a line of code or comment. swift-format holds Swift's code to 120.
    static let columnsMax = 125
    /// Columns of a line of SQL: a clause or a message is not broken.
    static let sqlColumnsMax = 160
    /// Columns of a page's line.
    static let pageColumnsMax = 120

    /// The line after the last one allowed; none in a file of at most `linesMax` lines.
    static func surplus(of text: String) -> [Int] {
        let count = lines(of: text).count - (text.hasSuffix("\n") ? 1 : 0)
        return count > linesMax ? [linesMax + 1] : []
    }

    /// Lines that are too wide. A line with a string literal, or of one, may be wider: a text is not broken.
    static func wideLines(of text: String) -> [Int] {
        var isLiteral = false
        return lines(of: text).enumerated().compactMap { index, line in
            let wasLiteral = isLiteral
            // Most lines are short, and have no such quotes.
            if line.utf8.contains(UInt8(ascii: "\"")),
                line.split(separator: "\"\"\"", omittingEmptySubsequences: false).count % 2 == 0
            {
                isLiteral.toggle()
            }
            guard line.utf8.count > columnsMax, line.count > columnsMax else { return nil }
            return wasLiteral || isLiteral || line.contains("\"") ? nil : index + 1
        }
    }

    /// Lines of JavaScript, Python, SQL or C that are too wide, literals included.
    static func widerLines(of text: String, _ columnsMax: Int) -> [Int] {
        lines(of: text).enumerated().compactMap { index, line in
            line.utf8.count > columnsMax && line.count > columnsMax ? index + 1 : nil
        }
    }

    /// Lines of a page's prose and code that are too wide. The row of a table is one line.
    static func widePageLines(of text: String) -> [Int] {
        lines(of: text).enumerated().compactMap { index, line in
            line.count > pageColumnsMax && !line.hasPrefix("|") ? index + 1 : nil
        }
    }

    /// Lines with a word that makes readers stop: who or what is meant has to be worked out. Spelled here so that this file
    /// has none of them.
    static func unplainLines(of text: String) -> [Int] {
        var found = ranges(
            of: #"(?i)who(?:ever)|\blike(?:wise)\b|\bthe same (?:of)\b|\bwhat is (?:none)\b"#
                + #"|(?-i:\b[Hh](?:e|is|im|imself)\b|\bfunc who[A-Z]|\bdef test_who_)"#, in: text)
        // A comment that opens with them says what something else is.
        let lines = lines(of: text)
        for (index, line) in lines.enumerated() {
            let words = line.drop { $0 == " " }
            let opens = words.hasPrefix("/// ") && !(index > 0 && lines[index - 1].drop { $0 == " " }.hasPrefix("///"))
            let ofSQL = line.hasPrefix("-- ") && words.firstMatch(of: /^-- [a-z_]+\.[a-z_]+: the same\b/) != nil
            if opens && words.hasPrefix("/// The same ") || words.hasPrefix("\"\"\"The same ") || ofSQL {
                found.append(index + 1)
            }
        }
        return found.sorted()
    }

    /// Declarations for other targets without a comment. An override has its superclass's; an enum's cases and a protocol's
    /// requirements have no modifier of their own, and belong to their type's comment.
    static func undocumentedLines(of text: String) -> [Int] {
        let lines = lines(of: text)
        return lines.indices.filter { index in
            guard lines[index].contains("package ") || lines[index].contains("public ") else { return false }
            let words = lines[index].split(separator: " ").drop { $0.hasPrefix("@") }
            let marks = words.prefix { modifiers.contains($0) }
            guard marks.contains("package") || marks.contains("public"), !marks.contains("override"),
                let keyword = words.dropFirst(marks.count).first, keyword != "import"
            else { return false }
            let above = lines[..<index].last { line in
                let start = line.drop { $0 == " " }
                return !start.hasPrefix("@") && !start.hasPrefix("#if")
            }
            return above?.drop { $0 == " " }.hasPrefix("///") != true
        }
        .map { $0 + 1 }
    }

    private static let modifiers: Set<Substring> = [
        "public", "package", "open", "static", "final", "override", "mutating", "nonmutating", "consuming", "borrowing",
        "lazy", "weak", "unowned", "indirect", "required", "convenience", "nonisolated", "private(set)",
        "fileprivate(set)", "internal(set)", "package(set)",
    ]

    private static func lines(of text: String) -> [Substring] {
        text.split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// The numbers of the lines with a match.
    private static func ranges(of pattern: String, in text: String) -> [Int] {
        var (found, line, from): ([Int], Int, String.Index) = ([], 1, text.startIndex)
        while let match = text.range(of: pattern, options: .regularExpression, range: from..<text.endIndex) {
            line += text[from..<match.upperBound].utf8.count { $0 == UInt8(ascii: "\n") }
            found.append(line)
            from = match.upperBound
        }
        return found
    }
}
