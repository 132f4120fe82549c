import Postgres

/// Brings a database to the state that this program needs: roles, bootstrap, numbered migrations, functions.
///
/// Each migration runs in its own transaction, which also records it with its checksum. Then all functions run in one
/// transaction if they differ from the last run, if a migration has run, or if the publishing of the product's own tables
/// was changed. An advisory lock keeps migrators apart. Works as the role `carillon_owner`, or as one that may become it.
struct Migrator {
    /// The database compared with the files.
    struct Status: Equatable {
        enum State: Equatable {
            case applied(at: String)
            case pending
            /// The file differs from the one that ran.
            case changed
            /// The database has a version that this program does not know.
            case unknown
        }

        struct Line: Equatable {
            let version: Int
            let name: String
            let state: State
        }

        /// A fault that keeps a published table from reporting all changes.
        struct Problem: Equatable {
            let table: String
            let problem: String
            /// Whether the table is the product's own, which the function files repair.
            var isOwn: Bool { table.hasPrefix("care.") || table.hasPrefix("sync.") }
        }

        /// Ascending by version.
        var lines: [Line]
        /// Whether the last functions run are this program's.
        var functionsCurrent: Bool
        /// Only known while the functions are current.
        var problems: [Problem] = []

        var pending: [Line] { lines.filter { $0.state == .pending } }
        var isCurrent: Bool {
            functionsCurrent && !problems.contains(where: \.isOwn)
                && lines.allSatisfy { if case .applied = $0.state { true } else { false } }
        }

        var complaints: [String] {
            problems.map { "the published table \($0.table) does not tell all its changes: \($0.problem)" }
        }
    }

    private let files: SQLFileSet
    let connection: BlockingConnection
    /// How long one transaction tries to get its locks.
    var patience = Duration.seconds(30)
    private var locks: MigrationLocks { MigrationLocks(connection: connection, patience: patience) }

    /// Two numbers that no other program should use in this database: "cari" and "llon" as bytes.
    private static let lockKey = "x'63617269'::int, x'6c6c6f6e'::int"

    /// - Parameter url: connection string of the owner or a superuser.
    init(url: String, files: SQLFileSet) throws(Failure) {
        self.files = files
        do {
            connection = try BlockingConnection(url)
        } catch {
            throw Failure("the database cannot be reached: \(error.reason.message)")
        }
        try prepareSession()
    }

    /// Compares the database with the files; changes nothing.
    func status() throws(Failure) -> Status {
        try checkSchemaOwner()
        let (applied, functions) = try connection.asking("the state of the database cannot be read") {
            () throws(StatementError) in
            let present = try connection.query("select to_regclass('sync.migration') is not null")
            guard present.first?.first == "t" else { return ([[String?]](), [[String?]]()) }
            return (
                try connection.query(
                    "select version, name, checksum, to_char(applied_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') "
                        + "from sync.migration order by version"),
                try connection.query("select checksum from sync.function_set")
            )
        }
        var lines: [Int: Status.Line] = [:]
        for migration in files.migrations {
            lines[migration.version] = Status.Line(
                version: migration.version, name: migration.name, state: .pending)
        }
        for row in applied {
            guard row.count == 4, let version = row[0].flatMap({ Int($0) }) else { continue }
            let file = files.migrations.first { $0.version == version }
            let state: Status.State =
                if let file { file.checksum == row[2] ? .applied(at: row[3] ?? "") : .changed } else { .unknown }
            lines[version] = Status.Line(version: version, name: row[1] ?? "", state: state)
        }
        let current = functions.first?.first == files.functionsChecksum
        return Status(
            lines: lines.values.sorted { $0.version < $1.version }, functionsCurrent: current,
            problems: current ? try problems() : [])
    }

    /// A dump restored without its roles gives the schema to another owner. Later steps could not report that.
    private func checkSchemaOwner() throws(Failure) {
        let owner = DevelopmentCluster.owner
        let found = try connection.asking("the state of the database cannot be read") { () throws(StatementError) in
            try connection.query(
                """
                select r.rolname, exists (select from pg_roles where rolname = $1)
                from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'sync'
                """, [owner]
            ).first
        }
        guard let found, let name = found.first ?? nil, name != owner else { return }
        let isMissing = found.last == "f"
        throw Failure(
            "the schema sync of this database belongs to \(name), not to \(owner)"
                + (isMissing ? ", a role that this server does not have" : "")
                + ": a dump keeps its owners only if their roles exist; make the roles, and restore it into a new "
                + "database (deploy/README.md, Back up and restore)")
    }

    private func problems() throws(Failure) -> [Status.Problem] {
        try connection.asking("the published tables cannot be checked") { () throws(StatementError) in
            // A test's set of functions may lack it.
            let present = try connection.query("select to_regprocedure('sync.check_published()') is not null")
            guard present.first?.first == "t" else { return [] }
            return try connection.query("select relation, problem from sync.check_published()").compactMap { row in
                guard row.count == 2, let table = row[0], let problem = row[1] else { return nil }
                return Status.Problem(table: table, problem: problem)
            }
        }
    }

    func missingRoles() throws(Failure) -> [String] {
        let found = try connection.asking("the roles cannot be read") { () throws(StatementError) in
            try connection.query("select rolname from pg_roles").compactMap { $0.first ?? nil }
        }
        return [DevelopmentCluster.owner, DevelopmentCluster.hub].filter { !found.contains($0) }
    }

    /// Whether the hub's role has a password; nil when only a superuser may know.
    func hubRoleHasPassword() throws(Failure) -> Bool? {
        try connection.asking("the roles cannot be read") { () throws(StatementError) in
            // A migration before may have become the owner.
            try connection.execute("reset role")
            let mayKnow = try connection.query("select has_table_privilege('pg_catalog.pg_authid', 'select')")
            guard mayKnow.first?.first == "t" else { return nil }
            let found = try connection.query(
                "select rolpassword is not null from pg_catalog.pg_authid where rolname = $1", [DevelopmentCluster.hub])
            return found.first?.first == "t"
        }
    }

    /// Checks that this program may change the database.
    ///
    /// - Throws: a failure when the database is not in UTF-8, is newer, has an applied file that changed, or skipped a
    ///   version.
    func check(_ status: Status) throws(Failure) {
        try checkEncoding()
        let newest = files.migrations.last?.version ?? 0
        if let line = status.lines.last(where: { $0.state == .unknown }) {
            throw Failure(
                "the database is newer than this program: it has migration \(line.version) (\(line.name)), "
                    + "this program knows \(newest); install the newer carillon")
        }
        if let line = status.lines.first(where: { $0.state == .changed }) {
            throw Failure(
                "migration \(line.version) (\(line.name)) is not the file that ran on this database: its checksum "
                    + "differs; restore the file, and put changes into a new migration")
        }
        if let gap = status.pending.first, let later = status.lines.last(where: { $0.state != .pending }),
            later.version > gap.version
        {
            throw Failure(
                "migration \(gap.version) (\(gap.name)) never ran, but \(later.version) did: "
                    + "migrations run in the order of their numbers")
        }
    }

    /// Migrates the database.
    ///
    /// - Parameter report: takes one line for people about each step.
    /// - Returns: the state afterwards.
    @discardableResult func migrate(report: (String) -> Void) throws(Failure) -> Status {
        try connection.asking("the lock of the migrations cannot be taken") { () throws(StatementError) in
            _ = try connection.query("select pg_advisory_lock(\(Self.lockKey))")
        }
        defer { _ = try? connection.query("select pg_advisory_unlock(\(Self.lockKey))") }
        // Read under the lock, to see what another migrator has just done.
        var status = try status()
        try check(status)
        guard !status.isCurrent else {
            status.complaints.forEach(report)
            return status
        }
        try becomeOwner()
        try checkExtension()
        try locks.transaction(files.bootstrap.path) { () throws(StatementError) in
            try connection.execute(files.bootstrap.text)
        }
        let pending = files.migrations.filter { migration in
            status.pending.contains { $0.version == migration.version }
        }
        for migration in pending {
            try locks.transaction(migration.file.path) { () throws(StatementError) in
                try locks.lockTables(named: migration.file.text)
                try connection.execute(migration.file.text)
                _ = try connection.query(
                    "insert into sync.migration (version, name, checksum) values ($1::int, $2, $3)",
                    [String(migration.version), migration.name, migration.checksum])
            }
            report("migration \(migration.version) (\(migration.name)) applied")
        }
        // Also when only the publishing of a product's own table is wrong: the functions repair it.
        try runFunctions(report: report)
        status = try self.status()
        status.complaints.forEach(report)
        return status
    }

    /// Adds the demonstration to a migrated database. A repeat adds today's doses.
    func demonstrate() throws(Failure) {
        try becomeOwner()
        do {
            // The file has its own BEGIN and COMMIT.
            try connection.execute(files.demonstration.text)
        } catch {
            try? connection.execute("rollback")
            throw Failure("sql/\(files.demonstration.path) failed: \(error.line)")
        }
    }

    /// Begins a new epoch in a migrated database: all positions of devices become invalid. Returns the epoch's name.
    func beginEpoch() throws(Failure) -> String {
        try becomeOwner()
        return try connection.asking("no new epoch was begun") { () throws(StatementError) in
            try connection.query("select sync.new_epoch()").first?.first.flatMap { $0 } ?? ""
        }
    }

    private func runFunctions(report: (String) -> Void) throws(Failure) {
        var path = "functions"
        try locks.transaction(path) { () throws(StatementError) in
            for file in files.functions {
                path = file.path
                try connection.execute(file.text)
            }
            _ = try connection.query(
                """
                insert into sync.function_set (checksum) values ($1)
                on conflict (one) do update set checksum = excluded.checksum, applied_at = now()
                """, [files.functionsChecksum])
        }
        report("\(files.functions.count) function files applied")
    }

    /// Creates the roles if allowed, and continues as the owner.
    private func becomeOwner() throws(Failure) {
        let owner = DevelopmentCluster.owner
        let rights = try connection.asking("the roles cannot be read") { () throws(StatementError) in
            try connection.query(
                """
                select r.rolsuper or r.rolcreaterole, session_user = $1,
                       (select count(*) from pg_roles where rolname in ($1, $2))
                from pg_roles r where r.rolname = session_user
                """, [owner, DevelopmentCluster.hub]
            ).first ?? []
        }
        if rights.first == "t" {
            try locks.transaction(files.roles.path) { () throws(StatementError) in
                try connection.execute("reset role")
                try connection.execute(files.roles.text)
            }
        } else if rights.last != "2" {
            throw Failure(
                "the roles \(owner) and \(DevelopmentCluster.hub) are not there, and this user may not make them: "
                    + "run sql/roles.sql as a superuser first")
        }
        guard rights.dropFirst().first != "t" else { return }
        if (try? connection.execute("set role \(owner)")) != nil { return }
        // A role that creates roles need not be a member of them, but may become one.
        if rights.first == "t", (try? connection.execute("grant \(owner) to current_user")) != nil,
            (try? connection.execute("set role \(owner)")) != nil
        {
            return
        }
        let user = try connection.asking("the roles cannot be read") { () throws(StatementError) in
            try connection.query("select quote_ident(session_user)").first?.first ?? nil
        }
        throw Failure(
            "this user may not act as \(owner): connect as \(owner), or have a superuser run: "
                + "GRANT \(owner) TO \(user ?? "")")
    }
}

extension BlockingConnection {
    /// What `body` returns; a failure says what cannot be done, and who should try.
    func asking<Result>(
        _ what: String, _ body: () throws(StatementError) -> Result
    ) throws(Failure) -> Result {
        do {
            return try body()
        } catch {
            let advice =
                error.sqlstate?.fault == .role
                ? "; connect as a superuser or as \(DevelopmentCluster.owner), not as \(DevelopmentCluster.hub)" : ""
            throw Failure("\(what): \(error.line)\(advice)")
        }
    }
}
