import Foundation

struct Page {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardized

    /// Path from the tree's root.
    let path: String
    let text: String

    init(_ path: String) throws {
        self.init(path: path, text: try String(contentsOf: Self.root.appendingPathComponent(path), encoding: .utf8))
    }

    init(path: String, text: String) {
        self.path = path
        self.text = text
    }

    /// The lines below a heading, with its subsections if it is one of the page's largest; nil without such a heading.
    func section(_ heading: String) -> [String]? {
        guard let section = text.components(separatedBy: heading + "\n").dropFirst().first else { return nil }
        return section.components(separatedBy: "\n## ")[0].components(separatedBy: "\n")
    }

    /// GitHub's anchors of the headings: lower case, without punctuation, with hyphens for spaces.
    var anchors: Set<String> { Set(headings(from: 1, to: 6)) }

    /// The anchors of headings of some levels, in order.
    func headings(from first: Int, to last: Int) -> [String] {
        var isCode = false
        return text.split(separator: "\n").compactMap { line in
            if line.hasPrefix("```") { isCode.toggle() }
            let heading = line.drop { $0 == "#" }
            guard !isCode, (first...last).contains(line.count - heading.count), heading.first == " " else { return nil }
            return heading.dropFirst().lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                .replacing(" ", with: "-")
        }
    }

    /// The text in backticks and code blocks, each piece by itself.
    var code: [String] {
        let parts = text.components(separatedBy: "```")
        let blocks = parts.enumerated().filter { !$0.offset.isMultiple(of: 2) }.map(\.element)
        let rest = parts.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element).joined(separator: "\n")
        let lines = rest.split(separator: "\n").filter { $0.hasPrefix("    ") }.map { $0.drop { $0 == " " } }
        return blocks + lines.map(String.init) + rest.matches(of: /`([^`\n]+)`/).map { String($0.1) }
    }

    var links: [String] {
        text.matches(of: /\]\(([^)\s]+)\)/).map { String($0.1) }.filter { !$0.hasPrefix("http") }
    }
}
