import Foundation

/// A page of this tree, for people.
struct Page {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardized

    /// Path from the tree's root.
    let path: String
    let text: String

    init(_ path: String) throws {
        self.path = path
        text = try String(contentsOf: Self.root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The lines below a heading, with those of smaller headings where it is one of the page's largest; nil where there is
    /// no such heading.
    func section(_ heading: String) -> [String]? {
        guard let section = text.components(separatedBy: heading + "\n").dropFirst().first else { return nil }
        return section.components(separatedBy: "\n## ")[0].components(separatedBy: "\n")
    }

    /// What GitHub calls the headings: small letters, without punctuation, with hyphens for spaces.
    var anchors: Set<String> {
        var isCode = false
        return Set(
            text.split(separator: "\n").compactMap { line in
                if line.hasPrefix("```") { isCode.toggle() }
                let heading = line.drop { $0 == "#" }
                guard !isCode, heading.count < line.count, heading.first == " " else { return nil }
                return heading.dropFirst().lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    .replacing(" ", with: "-")
            })
    }

    /// What it links to, without addresses of the web.
    var links: [String] {
        text.matches(of: /\]\(([^)\s]+)\)/).map { String($0.1) }.filter { !$0.hasPrefix("http") }
    }
}
