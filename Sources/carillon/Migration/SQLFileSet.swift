import SQLFiles

/// The SQL files that the program carries within itself, as `sql/` holds them.
struct SQLFileSet: Sendable {
    /// One file: its path below `sql/`, and its text.
    struct File: Sendable, Equatable {
        let path: String
        let text: String
    }

    /// A numbered file of `migrations/`, which runs once and never changes afterwards.
    struct Migration: Sendable, Equatable {
        let version: Int
        let file: File
        let checksum: String

        /// - Returns: nil where the name does not begin with a number and an underscore.
        init?(_ file: File) {
            let name = file.path.split(separator: "/").last ?? ""
            guard let underscore = name.firstIndex(of: "_"), let version = Int(name[..<underscore]), version > 0 else {
                return nil
            }
            self.version = version
            self.file = file
            checksum = carillon.checksum(of: file.text)
        }

        /// The name without folder and ending, as the database records it.
        var name: String {
            String((file.path.split(separator: "/").last ?? "").dropLast(".sql".count))
        }
    }

    var roles: File
    var bootstrap: File
    /// Rising by version.
    var migrations: [Migration]
    /// In the order of their names, in which they run.
    var functions: [File]
    var demonstration: File

    /// Over names and texts of all functions; another one makes them run again.
    var functionsChecksum: String {
        checksum(of: functions.map { "\($0.path)\n\($0.text)" }.joined(separator: "\n"))
    }

    /// The files built into the program.
    static func embedded() throws(Failure) -> SQLFileSet {
        let files = embeddedFiles()
        func file(_ path: String) throws(Failure) -> File {
            guard let file = files.first(where: { $0.path == path }) else {
                throw Failure("this program was built without sql/\(path)")
            }
            return file
        }
        let numbered = files.filter { $0.path.hasPrefix("migrations/") }
        let migrations = numbered.compactMap { Migration($0) }.sorted { $0.version < $1.version }
        guard migrations.count == numbered.count, Set(migrations.map(\.version)).count == migrations.count else {
            throw Failure("this program was built with two files of one number, or one without, in sql/migrations")
        }
        return SQLFileSet(
            roles: try file("roles.sql"), bootstrap: try file("bootstrap.sql"), migrations: migrations,
            functions: files.filter { $0.path.hasPrefix("functions/") }.sorted { $0.path < $1.path },
            demonstration: try file("demo.sql"))
    }

    private static func embeddedFiles() -> [File] {
        (0..<carillon_sql_file_count).map { index in
            let file = carillon_sql_file_at(index).pointee
            let bytes = UnsafeBufferPointer(start: file.bytes, count: file.length)
            return File(path: String(cString: file.path), text: String(decoding: bytes, as: UTF8.self))
        }
    }
}
