import Foundation
import Testing

@Suite struct PageTests {
    /// What the page shows is compiled: it is the code of `Snippets.swift`, line for line.
    @Test func snippetsAreCompiled() throws {
        let own = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        func lines(_ url: URL) throws -> [String] {
            try String(contentsOf: url, encoding: .utf8).components(separatedBy: "\n")
        }
        let compiled = try lines(own.appendingPathComponent("Snippets.swift")).map(Self.bare)
        let page = try lines(
            own.appendingPathComponent("../../../Sources/Clients/CarillonClient/README.md").standardized)
        var blocks: [[String]] = []
        var isInside = false
        for line in page {
            if line == "```swift" { blocks.append([]) }
            if isInside, line != "```" { blocks[blocks.count - 1].append(Self.bare(line)) }
            isInside = line == "```swift" || isInside && line != "```"
        }
        #expect(blocks.count == 8)
        for block in blocks {
            let isThere = compiled.indices.contains { compiled[$0...].starts(with: block) }
            #expect(isThere, "not in Snippets.swift: \(block.first ?? "")")
        }
    }

    private static func bare(_ line: String) -> String { line.trimmingCharacters(in: .whitespaces) }
}
