import Foundation
import Testing

@Suite struct PageTests {
    /// What the pages show is compiled: it is the code of a file here, line for line.
    @Test(arguments: [("README.md", "Snippets", 9), ("CarillonClient.docc/OfflineApp.md", "Tutorial", 4)])
    func snippetsAreCompiled(_ name: String, _ code: String, _ count: Int) throws {
        let own = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        func lines(_ url: URL) throws -> [String] {
            try String(contentsOf: url, encoding: .utf8).components(separatedBy: "\n")
        }
        let compiled = try lines(own.appendingPathComponent("\(code).swift")).map(Self.bare)
        let page = try lines(
            own.appendingPathComponent("../../../Sources/Clients/CarillonClient/\(name)").standardized)
        var blocks: [[String]] = []
        var isInside = false
        for line in page {
            if line == "```swift" { blocks.append([]) }
            // Tests have an entry of their own.
            if isInside, line != "```", line != "@main" { blocks[blocks.count - 1].append(Self.bare(line)) }
            isInside = line == "```swift" || isInside && line != "```"
        }
        #expect(blocks.count == count)
        for block in blocks {
            let isThere = compiled.indices.contains { compiled[$0...].starts(with: block) }
            #expect(isThere, "not in \(code).swift: \(block.first ?? "")")
        }
    }

    private static func bare(_ line: String) -> String { line.trimmingCharacters(in: .whitespaces) }
}
