import Foundation

/// What a run of the tests is told from outside.
package enum Environment {
    /// A number in the environment, decimal.
    package static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }
}

/// The examples that a parser's fuzzing starts from, one file each, in `Tests/Corpus/<parser>/`.
package enum Corpus {
    /// All examples of `parser`, by file name.
    package static func load(_ parser: String) throws -> [(name: String, bytes: [UInt8])] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Corpus").appendingPathComponent(parser)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { name in
            (name, [UInt8](try Data(contentsOf: folder.appendingPathComponent(name))))
        }
    }
}
