import FoundationEssentials
import Glibc
import Postgres

/// A private PostgreSQL cluster with the hub's database. It listens only on a socket, in folders closed to others.
///
/// It holds its folder's lock from `init` until it is released. `start` and `stop` may alternate.
final class DevelopmentCluster {
    /// The database, its owner, and the hub's role, named as in `sql/roles.sql`.
    static let database = "carillon"
    static let owner = "carillon_owner"
    static let hub = "carillon_hub"

    let folders: ClusterFolders
    let programs: PostgresPrograms
    private let user: ClusterUser
    private let lock: FolderLock
    private let postmaster: Postmaster

    /// Chooses folders and programs; starts nothing.
    ///
    /// - Parameters:
    ///   - directory: DIR, the absolute path of an existing folder.
    ///   - endedUnasked: called on its own thread when the server ends without `stop`.
    init(directory: String, endedUnasked: @escaping @Sendable () -> Void = {}) throws(Failure) {
        let user = try ClusterUser.current()
        let folders = try ClusterFolders.prepare(directory: directory, user: user)
        lock = try FolderLock(file: folders.lock)
        let programs = try PostgresPrograms.find(majorVersion: Self.majorVersion(of: folders.data))
        self.user = user
        self.folders = folders
        self.programs = programs
        postmaster = Postmaster(programs: programs, folders: folders, user: user, endedUnasked: endedUnasked)
    }

    var ownerURL: String { folders.databaseURL(role: Self.owner, database: Self.database) }
    var hubURL: String { folders.databaseURL(role: Self.hub, database: Self.database) }
    var superuserURL: String { folders.databaseURL(role: "postgres", database: Self.database) }
    var processID: pid_t? { postmaster.runningProcess() }

    /// Makes the cluster if needed, starts it, and makes the database if needed.
    ///
    /// - Returns: whether the cluster was made now.
    @discardableResult func start() throws(Failure) -> Bool {
        let isNew = !FileManager.default.fileExists(atPath: folders.data + "/PG_VERSION")
        if isNew { try make() }
        try configure()
        try postmaster.start()
        do {
            try makeDatabase()
        } catch {
            postmaster.stop()
            throw Failure("the database \(Self.database) cannot be made: \(error.line)")
        }
        return isNew
    }

    /// Lets the owner see and end the hub's sessions, and create tables in `public`, so one connection string suffices for
    /// trying things. Call it after the migrations have made the roles.
    func widenOwner() throws(Failure) {
        do {
            let connection = try BlockingConnection(superuserURL)
            try connection.execute("grant pg_monitor, pg_signal_backend to \(Self.owner)")
            try connection.execute("grant create on schema public to \(Self.owner)")
        } catch {
            throw Failure("the owner cannot be given its rights: \(error.line)")
        }
    }

    /// Stops the server, and returns when it is gone.
    func stop() {
        postmaster.stop()
    }

    /// Makes the cluster in another folder and renames it when complete. Removes what a crash left half made.
    private func make() throws(Failure) {
        try? FileManager.default.removeItem(atPath: folders.unfinishedData)
        // A folder without PG_VERSION is no cluster: initdb did not finish there.
        try? FileManager.default.removeItem(atPath: folders.data)
        let log = open(folders.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard log >= 0 else { throw Failure("\(folders.log): cannot be written: \(String(cString: strerror(errno)))") }
        defer { close(log) }
        let exit = try ChildProcess.run(
            user.running([
                "\(programs.folder)/initdb", "-D", folders.unfinishedData, "-U", "postgres", "-A", "trust", "-E",
                "UTF8",
                "--locale=C.UTF-8", "--no-instructions",
            ]), output: log)
        guard exit.isSuccess else {
            throw Failure("initdb failed with status \(exit.status): see \(folders.log)")
        }
        let main = folders.unfinishedData + "/postgresql.conf"
        let file = open(main, O_WRONLY | O_APPEND | O_CLOEXEC)
        defer { close(file) }
        guard Descriptor.write("\ninclude 'carillon.conf'\n", to: file) else {
            throw Failure("\(main): cannot be written")
        }
        guard rename(folders.unfinishedData, folders.data) == 0 else {
            throw Failure("\(folders.data): cannot be made: \(String(cString: strerror(errno)))")
        }
    }

    /// Writes our own configuration file. It depends on the folder's path, which may have changed. As a file, not as server
    /// arguments, it also applies to a manual `pg_ctl restart`.
    private func configure() throws(Failure) {
        let text = """
            # Written by carillon dev at each start.
            listen_addresses = ''
            port = 5432
            unix_socket_directories = '"\(folders.socket)"'
            unix_socket_permissions = 0700
            shared_buffers = 64MB
            max_wal_size = 256MB
            jit = off
            # The demonstration's days are those of this zone, wherever the machine is.
            timezone = 'UTC'
            log_timezone = 'UTC'
            cluster_name = 'carillon-dev'
            logging_collector = off
            log_destination = 'stderr'
            # Statements and details may quote rows, which no log may hold.
            log_min_error_statement = panic
            log_error_verbosity = terse

            """
        let path = folders.data + "/carillon.conf"
        try Descriptor.replace(path, with: text)
        if chown(path, user.userID, user.groupID) != 0 || chmod(path, 0o600) != 0 {
            throw Failure("\(path): cannot be given to the cluster's user")
        }
    }

    private func makeDatabase() throws(StatementError) {
        let connection = try BlockingConnection(folders.databaseURL(role: "postgres", database: "postgres"))
        let found = try connection.query("select 1 from pg_database where datname = $1", [Self.database])
        if found.isEmpty { try connection.execute("create database \(Self.database)") }
    }

    private static func majorVersion(of data: String) -> Int? {
        guard let text = try? String(contentsOfFile: data + "/PG_VERSION", encoding: .utf8) else { return nil }
        return Int(text.trimmed)
    }
}
