import Foundation
import Testing

@testable import carillon

/// The pages of this tree, and the imports allowed to its sources.
@Suite(.timeLimit(.minutes(15)))
struct PagesTests {
    private static let folders = [
        "", "Sources/", "Sources/Values/Sync/", "Sources/Values/Pusher/", "Sources/Clients/CarillonClient/",
        "Sources/Clients/Web/", "sql/", "deploy/", "loadtest/", "Tests/",
    ]
    private static let readers = folders.map { $0 + "README.md" }
    private static let names =
        readers + [
            "deploy/install.md", "deploy/console.md", "deploy/settings.md", "deploy/metrics.md", "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
        ]

    @Test(arguments: names + ["Sources/Clients/Console/README.md", "Sources/Clients/Demonstration/README.md"])
    func linksLeadSomewhere(_ name: String) throws {
        let page = try Page(name)
        let folder = Page.root.appendingPathComponent(name).deletingLastPathComponent()
        for link in page.links {
            let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let path = folder.appendingPathComponent(parts[0]).standardized.path
            let target = parts[0].isEmpty ? name : path.replacing(Page.root.path + "/", with: "")
            guard FileManager.default.fileExists(atPath: Page.root.appendingPathComponent(target).path) else {
                Issue.record("\(name) links to \(link): there is no such file")
                continue
            }
            guard parts.count == 2 else { continue }
            #expect(try Page(target).anchors.contains(parts[1]), "\(name) links to \(link): no such heading")
        }
    }

    @Test func theFirstPageLeadsToAllOthersAndIsShort() throws {
        let first = try Page("README.md")
        for name in Self.names.dropFirst() { #expect(first.links.contains { $0.hasPrefix(name) }, "\(name)") }
        #expect(first.text.split(separator: "\n", omittingEmptySubsequences: false).count <= 221)
    }

    /// Each kind of broken link is found.
    @Test func anchorsAreWhatGitHubMakes() throws {
        let page = try Page("sql/README.md")
        #expect(page.anchors.isSuperset(of: ["revoke-a-users-access", "synccheck_published", "your-database"]))
        #expect(!page.anchors.contains("Your database") && !page.anchors.contains("nothing-of-the-kind"))
        #expect(page.links.contains("#large-jobs") && page.links.contains("../README.md#install"))
    }

    /// All headings except the page's title are in its table of contents, which precedes the first of them.
    @Test(arguments: readers.dropFirst() + ["deploy/install.md", "deploy/console.md"]) func pagesHaveTheirContents(
        _ name: String
    ) throws {
        let page = try Page(name)
        let top = try #require(page.text.components(separatedBy: "\n## ").first)
        let contents = Set(Page(path: name, text: top).links)
        for heading in page.headings(from: 2, to: 2) {
            #expect(contents.contains("#" + heading), "\(name): \(heading)")
        }
    }

    /// A walk that names a moved file misleads the reader. One that turns back to a file says so. `shared`: files of the
    /// subscribe walk that the walk begins with.
    @Test(arguments: [
        ("event", 21, 0), ("subscribe", 14, 0), ("resume", 14, 5), ("action", 17, 5), ("publish", 19, 0),
        ("snapshot", 12, 0), ("push", 13, 0), ("take-over", 10, 0),
    ])
    func walksNameTheirFilesInOrder(_ walk: String, _ count: Int, _ shared: Int) throws {
        let lines = try #require(Page("Sources/README.md").section("## The eight walks"))
        let head = try #require(lines.firstIndex { $0.contains("**\(walk)**") })
        #expect(lines[head].contains("It begins with steps 1 to 5 of the subscribe") == (shared == 5))
        let steps = lines[(head + 1)...].prefix { !$0.contains("**") }.filter { $0.first?.isNumber == true }
        var last: String?
        for step in steps {
            let path = try #require(step.split(separator: "`").dropFirst().first.map(String.init))
            let file = path.hasPrefix("sql/") ? path : "Sources/" + path
            #expect(FileManager.default.fileExists(atPath: Page.root.appendingPathComponent(file).path), "\(path)")
            #expect(path != last, "\(walk) names \(path) twice in a row")
            last = path
        }
        #expect(steps.count + shared == count)
    }

    /// The rest of Foundation would link libraries into the hub: 45 MB of ICU tables and 4 MB of memory. The load tester
    /// and the client libraries may use it.
    @Test(arguments: ["Sources", "sql", "loadtest"]) func largePartsOfFoundationAreNotImported(_ folder: String) throws
    {
        let files = try FileManager.default.subpathsOfDirectory(
            atPath: Page.root.appendingPathComponent(folder).path)
        let sources = files.filter { $0.hasSuffix(".swift") }
        #expect(folder == "sql" || sources.count > 5)
        for source in sources {
            let text = try Page(folder + "/" + source).text
            for line in text.split(separator: "\n") {
                let words = line.split(whereSeparator: \.isWhitespace)
                let isOutside = folder == "loadtest" || source.hasPrefix("Clients/")
                let wanted = ["FoundationEssentials"] + (isOutside ? ["Foundation"] : [])
                let isUnwanted = words.contains { $0.hasPrefix("Foundation") && !wanted.contains(String($0)) }
                #expect(!isUnwanted || !words.contains("import"), "\(folder)/\(source): \(line)")
            }
        }
    }
}
