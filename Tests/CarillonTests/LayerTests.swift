import Foundation
import Testing

/// Folders below Sources are layers, and each target imports only targets above it in Package.swift.
@Suite struct LayerTests {
    /// The targets that client libraries build on.
    private static let pure = ["Bytes", "JSON", "Sync", "Care"]

    @Test func importsPointUpwards() throws {
        let tree = try SourceTree()
        #expect(Set(tree.targets.map(\.layer)) == Set(SourceTree.layers))
        #expect(tree.breachesOfOrder == [])
    }

    @Test func clientsNeedNeitherOpenSSLNorLocks() throws {
        let tree = try SourceTree()
        #expect(Self.pure.allSatisfy { name in tree.targets.contains { $0.name == name } })
        #expect(tree.breachesOfPurity(of: Self.pure) == [])
    }

    /// Apps build these: they bring nothing of the hub along but values, and the hub nothing of theirs.
    @Test func clientLibrariesStandAlone() throws {
        let tree = try SourceTree()
        let own = Set(tree.targets.map(\.name))
        #expect(tree.reach(of: "CarillonClient").intersection(own) == ["Bytes", "Clock", "JSON", "Sync", "Care"])
        let planned: Set = ["Bytes", "Clock", "JSON", "Sync", "Care", "Notifications"]
        #expect(tree.reach(of: "Reminding").intersection(own) == planned)
        #expect(tree.reach(of: "Notifications") == ["Foundation", "UserNotifications"])
        let clients = Set(tree.targets.filter { $0.layer == "Clients" }.map(\.name))
        for target in tree.targets where target.layer != "Clients" {
            #expect(target.needs.isDisjoint(with: clients), "\(target.path)")
        }
        // A package with unsafe flags cannot be depended upon.
        let package = try Page("Package.swift").text
        let rooms = package.matches(of: /room\(\s*"(?:Values|Clients)\/.*?\n\s*\n/.dotMatchesNewlines())
        #expect(!rooms.isEmpty && rooms.allSatisfy { !$0.0.contains("hubSettings") })
    }

    /// The engine decides a session's messages; the sink decides how they are sent.
    @Test func theEngineKnowsNoTransport() throws {
        let reach = try SourceTree().reach(of: "HubEngine")
        #expect(reach.contains("Pusher"))
        #expect(reach.isDisjoint(with: ["WebSocket", "HTTP", "CZlib", "Reactor"]))
    }

    @Test func manyFilesStandInFoldersBySubject() throws {
        #expect(try SourceTree().breachesOfSize == [])
    }

    /// A target's tests are in the same layer. Exceptions are the command's, and the module maps of System, which the
    /// targets above them test.
    @Test func testsMirrorTheTargets() throws {
        let package = try Page("Package.swift").text
        let targets = try SourceTree().targets.filter { $0.layer != "System" }
        let folders = targets.map { $0.name == "carillon" ? "CarillonTests" : "\($0.path)Tests" }
        for folder in folders {
            #expect(package.contains("\"\(folder)\""))
            let files = try FileManager.default.contentsOfDirectory(
                atPath: Page.root.appending(path: "Tests/\(folder)").path)
            #expect(files.contains { $0.hasSuffix("Tests.swift") }, "\(folder)")
        }
        for layer in SourceTree.layers.dropFirst().dropLast() {
            let found = try FileManager.default.contentsOfDirectory(
                atPath: Page.root.appending(path: "Tests/\(layer)").path)
            #expect(Set(found.map { "\(layer)/\($0)" }).subtracting(folders) == [])
        }
    }

    // MARK: The rules themselves

    private static let package = """
            .target(name: "CLinux", path: "Sources/System/CLinux"),
            .target(name: "CBytes", path: "Sources/System/CBytes"),
            system("CZlib", "zlib", "zlib1g-dev"),

            // Values
            room("Values/Bytes"),
            room(
                "Values/Sync", ["Bytes", "CZlib", .product(name: "Logging", package: "swift-log")]),

            room("Edge/API", ["Sync"]),

            room("Data/Feed", ["Bytes"]),

            .executableTarget(
                name: "carillon", dependencies: ["API"]),

            .executableTarget(name: "other", dependencies: ["Feed"], path: "other"),
        """

    @Test func breachesAreFound() {
        let tree = SourceTree(
            package: Self.package,
            sources: [
                "Values/Bytes/A.swift": "import Glibc\nimport struct Sync.Position\n",
                "Values/Sync/Deep/B.swift": "import Bytes\n",
                "Values/Sync/C.swift": "  @preconcurrency import Foundation",
                "Edge/API/D.swift": "import Feed", "Data/Feed/E.swift": "// import API",
                "carillon/F.swift": "import Feed",
                "Values/New/G.swift": "",
            ])
        #expect(tree.targets.map(\.path).joined(separator: " ").hasSuffix("Values/Sync Edge/API Data/Feed carillon"))
        #expect(
            tree.breachesOfOrder == [
                "Data/Feed is declared too late", "Edge/API needs Data/Feed", "Values/Bytes needs Values/Sync",
                "Values/New/G.swift is no target's",
            ])
        #expect(tree.breachesOfPurity(of: ["Feed"]) == ["Feed reaches CZlib", "Feed reaches Foundation"])
        #expect(tree.breachesOfSize == [])
    }

    @Test func foldersAreCountedToTheirBounds() {
        func breaches(_ own: Int, _ below: Int) -> [String] {
            let names = (0..<own).map { "Values/Bytes/\($0).swift" } + (0..<below).map { "Values/Bytes/In/\($0).swift" }
            let sources = Dictionary(uniqueKeysWithValues: names.map { ($0, "") })
            return SourceTree(package: Self.package, sources: sources).breachesOfSize
        }
        #expect(breaches(12, 24) == [])
        #expect(breaches(13, 24) == ["Values/Bytes/ has 13 files"])
        #expect(breaches(12, 25) == ["Values/Bytes/In has 25 files"])
    }

    @Test(arguments: [
        ("import A", ["A"]), ("import struct A.B", ["A"]), ("@testable import A", ["A"]), ("public import A", ["A"]),
        ("@_spi(X) @preconcurrency package import A\nimport B", ["A", "B"]), ("// import A", []), ("let x = 1", []),
        ("#if os(Linux)\n    import A\n#endif", ["A"]), ("x.important()", []),
    ])
    func importsAreRead(_ text: String, _ modules: [String]) {
        #expect(SourceTree.imports(of: text) == Set(modules))
    }
}
