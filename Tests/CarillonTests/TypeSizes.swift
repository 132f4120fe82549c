import Foundation

/// The sizes of the types below Sources, including all their extensions.
///
/// Relies on swift-format's layout: a type ends with a brace indented like its declaration, and its members are indented by
/// four more blanks. A nested type is counted by itself, and its lines also count for the outer type.
struct TypeSizes {
    struct Size: Equatable {
        /// From the declaration to the closing brace, blank lines and comments included.
        var lines = 0
        /// Stored properties of an instance.
        var properties = 0
    }

    static let linesMax = 400
    static let propertiesMax = 20

    /// By target and name, such as `Feed.Tail`. A type declared outside Sources counts for the target that extends it.
    private(set) var sizes: [String: Size] = [:]

    /// - Parameter sources: the texts of files below Sources, by relative path.
    init(sources: [String: String]) {
        var parts: [(target: String, part: Part)] = []
        for (path, text) in sources where path.hasSuffix(".swift") {
            let folders = path.split(separator: "/")
            let target = String(
                folders.count > 2 && SourceTree.layers.contains(String(folders[0])) && folders[0] != "carillon"
                    ? folders[1] : folders[0])
            parts += Part.all(in: text).map { (target, $0) }
        }
        var homes: [String: Set<String>] = [:]
        for (target, part) in parts where !part.isExtension { homes[part.name, default: []].insert(target) }
        for (target, part) in parts {
            // A type of that name in the same target, or the only one elsewhere; an extension's nested types count with it.
            let known = homes[part.name] ?? []
            let home = known.contains(target) || known.count != 1 ? target : known.first ?? target
            sizes["\(home).\(part.name)", default: Size()].lines += part.size.lines
            sizes["\(home).\(part.name)", default: Size()].properties += part.size.properties
        }
    }

    var breaches: [String: Size] {
        sizes.filter { $0.value.lines > Self.linesMax || $0.value.properties > Self.propertiesMax }
    }

    private struct Part {
        let name: String
        let isExtension: Bool
        let depth: Int
        var size = Size()

        static func all(in text: String) -> [Part] {
            var (done, open): ([Part], [Part]) = ([], [])
            var isLiteral = false
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            for (number, line) in lines.enumerated() {
                for index in open.indices { open[index].size.lines += 1 }
                let wasLiteral = isLiteral
                if line.split(separator: "\"\"\"", omittingEmptySubsequences: false).count % 2 == 0 {
                    isLiteral.toggle()
                }
                guard !wasLiteral else { continue }
                let depth = line.prefix { $0 == " " }.count
                if line.first(where: { $0 != " " }) == "}", let last = open.last, depth == last.depth {
                    done.append(open.removeLast())
                    continue
                }
                let words = Self.words(of: line)
                guard let keyword = words.first, words.count > 1 else { continue }
                if ["struct", "class", "enum", "actor", "protocol", "extension"].contains(keyword) {
                    let own = String(words[1].prefix { $0.isLetter || $0.isNumber || "._".contains($0) })
                    let name = open.last.map { "\($0.name).\(own)" } ?? own
                    var part = Part(name: name, isExtension: keyword == "extension", depth: depth)
                    part.size.lines = 1
                    if line.last == "}" { done.append(part) } else { open.append(part) }
                } else if let last = open.last, depth == last.depth + 4, ["let", "var"].contains(keyword) {
                    let next = lines.dropFirst(number + 1).first ?? ""
                    open[open.count - 1].size.properties += Self.stored(words.dropFirst().joined(separator: " "), next)
                }
            }
            return done
        }

        /// The words of a line from the keyword on, without attributes and modifiers; none for comments and static members.
        private static func words(of line: Substring) -> [Substring] {
            let modifiers = [
                "public", "package", "internal", "fileprivate", "private", "open", "final", "indirect", "lazy", "weak",
                "unowned",
                "nonisolated", "override",
            ]
            return Array(
                line.split(separator: " ").drop {
                    $0.first == "@" || modifiers.contains(String($0.prefix { $0 != "(" }))
                })
        }

        /// The number of stored properties in a declaration, given its text after `let` or `var`.
        private static func stored(_ text: String, _ next: Substring) -> Int {
            let isComputed = text.prefix { $0 != "=" }.contains("{") && !(text + next).contains(/(did|will)Set/)
            return isComputed ? 0 : text.prefix { $0 != ":" && $0 != "=" }.split(separator: ",").count
        }
    }
}
