import SQLFiles

/// The SQL files in `sql/`, embedded in the program.
struct SQLFileSet: Sendable {
    /// One file: its path below `sql/`, and its text.
    struct File: Sendable, Equatable {
        let path: String
        let text: String
    }

    /// A numbered file of `migrations/`. It runs once and never changes afterwards.
    struct Migration: Sendable, Equatable {
        let version: Int
        let file: File
        let checksum: String

        init(version: Int, file: File) {
            self.version = version
            self.file = file
            checksum = carillon.checksum(of: file.text)
        }

        /// The name without folder and extension, as recorded in the database.
        var name: String {
            String((file.path.split(separator: "/").last ?? "").dropLast(".sql".count))
        }
    }

    var roles: File
    var bootstrap: File
    /// Ascending by version.
    var migrations: [Migration]
    /// By name, the order in which they run.
    var functions: [File]
    var demonstration: File

    /// Over names and texts of all functions. A change makes them run again.
    var functionsChecksum: String {
        checksum(of: functions.map { "\($0.path)\n\($0.text)" }.joined(separator: "\n"))
    }

    static func embedded() throws(Failure) -> SQLFileSet {
        var texts: [UInt32: [(version: Int, file: File)]] = [:]
        for index in 0..<carillon_sql_file_count() {
            guard let entry = carillon_sql_file_at(index)?.pointee else { continue }
            let file = File(
                path: folder(of: entry.kind) + String(cString: entry.name), text: String(cString: entry.bytes))
            texts[entry.kind.rawValue, default: []].append((Int(entry.version), file))
        }
        func all(_ kind: carillon_sql_kind) -> [(version: Int, file: File)] { texts[kind.rawValue] ?? [] }
        func only(_ kind: carillon_sql_kind, _ name: String) throws(Failure) -> File {
            guard let file = all(kind).first?.file else { throw Failure("this program was built without sql/\(name)") }
            return file
        }
        let migrations = all(carillon_sql_migration).map { Migration(version: $0.version, file: $0.file) }
        guard Set(migrations.map(\.version)).count == migrations.count else {
            throw Failure("this program was built with two files of one number in sql/migrations")
        }
        return SQLFileSet(
            roles: try only(carillon_sql_roles, "roles.sql"),
            bootstrap: try only(carillon_sql_bootstrap, "bootstrap.sql"),
            migrations: migrations.sorted { $0.version < $1.version },
            functions: all(carillon_sql_function).map(\.file).sorted { $0.path < $1.path },
            demonstration: try only(carillon_sql_demo, "demo.sql"))
    }

    private static func folder(of kind: carillon_sql_kind) -> String {
        switch kind {
        case carillon_sql_migration: "migrations/"
        case carillon_sql_function: "functions/"
        default: ""
        }
    }
}
