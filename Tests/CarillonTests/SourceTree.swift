import Foundation

/// The targets below Sources: their declarations in Package.swift, and their files' imports.
struct SourceTree {
    struct Target {
        /// Its folder below Sources: the layer's and its own, or the command's.
        let path: String
        var layer: String { String(path.prefix { $0 != "/" }) }
        var name: String { String(path.split(separator: "/").last ?? "") }
        /// Imported targets and system modules, and declared dependencies.
        var needs: Set<String> = []
        /// Files per folder, relative to its own, which is empty.
        var folders: [String: Int] = [:]
    }

    static let layers = ["System", "Values", "Clients", "Engine", "Runtime", "Data", "Edge", "carillon"]

    /// In the order of Package.swift.
    private(set) var targets: [Target] = []
    /// Files below Sources that belong to no declared target.
    private(set) var strays: [String] = []

    /// - Parameters:
    ///   - package: the text of Package.swift.
    ///   - sources: the texts of all files below Sources, by relative path.
    init(package: String, sources: [String: String]) {
        let declarations = package.matches(
            of:
                /room\(\s*"([\w\/]+)"|system\(\s*"(\w+)"|path: "Sources\/([\w\/]+)"|executableTarget\(\s*name: "(carillon)"/
        )
        var declared: [Set<String>] = []
        for declaration in declarations {
            let path = (declaration.1 ?? declaration.3 ?? declaration.4).map(String.init)
            targets.append(Target(path: path ?? "System/\(declaration.2 ?? "")"))
            // Up to the next target's line, or the blank line after the last of a layer.
            let next = declarations.first { $0.range.lowerBound > declaration.range.lowerBound }
            let rest = package[declaration.range.upperBound..<(next?.range.lowerBound ?? package.endIndex)]
            let end = rest.firstRange(of: "\n\n")?.lowerBound ?? rest.lastIndex(of: "\n") ?? rest.endIndex
            declared.append(Set(rest[..<end].matches(of: /"(\w+)"/).map { String($0.1) }))
        }
        let known = Set(targets.map(\.name))
        for (index, names) in declared.enumerated() { targets[index].needs = names.intersection(known) }
        for (path, text) in sources {
            guard let index = targets.firstIndex(where: { path.hasPrefix($0.path + "/") }) else {
                strays.append(path)
                continue
            }
            targets[index].needs.formUnion(Self.imports(of: text))
            let folder = path.dropFirst(targets[index].path.count + 1).split(separator: "/").dropLast()
            targets[index].folders[folder.joined(separator: "/"), default: 0] += 1
        }
    }

    init() throws {
        self.init(package: try Page("Package.swift").text, sources: try Self.texts())
    }

    /// The texts of the checkout's files below a folder, by relative path.
    static func texts(below folder: String = "Sources") throws -> [String: String] {
        let root = Page.root.appending(path: folder)
        var sources: [String: String] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: root.path)
        where ["swift", "c", "h"].contains(where: { path.hasSuffix(".\($0)") }) {
            sources[path] = try String(contentsOf: root.appending(path: path), encoding: .utf8)
        }
        return sources
    }

    static func imports(of text: String) -> Set<String> {
        let line =
            /^ *(?:@\w+(?:\([^)]*\))? +)*(?:\w+ +)?import +(?:(?:struct|class|enum|protocol|typealias|func|let|var) +)?(\w+)/
        return Set(text.matches(of: line.anchorsMatchLineEndings()).map { String($0.1) })
    }

    /// A target's transitive dependencies.
    func reach(of name: String) -> Set<String> {
        var found: Set<String> = []
        var open = [name]
        while let next = open.popLast() {
            for need in targets.first(where: { $0.name == next })?.needs ?? [] where found.insert(need).inserted {
                open.append(need)
            }
        }
        return found
    }

    // MARK: The rules

    /// Violations of the order: targets that need one not declared above them, and layers out of order.
    var breachesOfOrder: [String] {
        let layers = targets.map { Self.layers.firstIndex(of: $0.layer) ?? -1 }
        var breaches = strays.map { "\($0) is no target's" }
        for (index, target) in targets.enumerated() {
            if layers[index] < layers[..<index].max() ?? 0 { breaches.append("\(target.path) is declared too late") }
            for (above, other) in targets.enumerated() where above >= index && target.needs.contains(other.name) {
                breaches.append("\(target.path) needs \(other.path)")
            }
        }
        return breaches.sorted()
    }

    /// Violations of the promise that client libraries can build on these targets: modules other than the C library's.
    func breachesOfPurity(of names: [String]) -> [String] {
        let pure = Set(targets.filter { $0.layer == "Values" }.map(\.name)).union(["Glibc"])
        return names.flatMap { name in reach(of: name).subtracting(pure).sorted().map { "\(name) reaches \($0)" } }
    }

    /// The most files of a target without subfolders, and the most beside subfolders.
    static let filesMax = 12
    static let filesOfSubjectMax = 24

    var breachesOfSize: [String] {
        targets.flatMap { target in
            target.folders.filter { $0.value > ($0.key.isEmpty ? Self.filesMax : Self.filesOfSubjectMax) }
                .map { "\(target.path)/\($0.key) has \($0.value) files" }
        }
        .sorted()
    }
}
