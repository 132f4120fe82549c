import Foundation

/// Settings of a test run from the environment.
package enum Environment {
    /// A decimal number in the environment.
    package static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }
}

/// The seed inputs for fuzzing a parser, one file each, in `Tests/Corpus/<parser>/`.
package enum Corpus {
    /// Where the seed inputs of `parser` are.
    package static func folder(_ parser: String) -> URL {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Corpus").appendingPathComponent(parser)
    }

    /// All seed inputs of `parser`, by file name.
    package static func load(_ parser: String) throws -> [(name: String, bytes: [UInt8])] {
        let folder = folder(parser)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { name in
            (name, [UInt8](try Data(contentsOf: folder.appendingPathComponent(name))))
        }
    }
}
