// TestDatabase: a private PostgreSQL cluster for tests, with databases that have the hub's schema.
//
// The cluster is in its own folder below the temporary folder, listens only on a socket there, and ends with the test
// process, however that ends: a guard process waits for its standard input to close.

import CDescriptorGuard
import Foundation
import Glibc
import Postgres
import Reactor

/// A running private cluster.
package final class Cluster: Sendable {
    /// Why the fixture failed.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// The cluster that tests share. Tests that stop it start their own.
    package static let shared = Result { try Cluster() }

    private let folder: String
    private let serial = Locked(0)
    /// Held open by this process; the guard acts when it closes.
    private let lifeline: Int32

    /// Creates and starts a cluster; takes about a second.
    package init() throws {
        folder = try Self.freshFolder()
        lifeline = try Self.guarded(folder, "create", folder)
        try start()
        try prepare()
    }

    /// Copies a running cluster, like a standby that does not follow: later commits are not in it.
    package init(standbyOf primary: Cluster) throws {
        folder = try Self.freshFolder()
        lifeline = try Self.guarded(folder, "copy", folder, primary.folder)
    }

    /// Starts the copy and makes it a primary, on the next timeline.
    package func promote() throws {
        try start()
        try Self.script("promote", folder)
    }

    deinit {
        close(lifeline)
    }

    private static func freshFolder() throws -> String {
        let root = FileManager.default.temporaryDirectory.path
        return "\(root)/carillon-test-\(getpid())-\(UInt32.random(in: .min ... .max))"
    }

    /// Creates the folder, and a guard that removes it when the returned descriptor is closed.
    private static func guarded(_ folder: String, _ arguments: String...) throws -> Int32 {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Failure(description: "no pipe") }
        // A server that inherited this end would keep the guard waiting for itself.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        try script(arguments)
        _ = try spawn(["guard", folder], input: ends[0])
        return ends[1]
    }

    /// The folder of its socket.
    package var host: String { folder }

    /// Starts the server if it is stopped, and waits until it accepts connections.
    package func start() throws {
        try Self.script("start", folder)
    }

    /// Stops the server and waits until it is gone; `immediate` is like a crash.
    package func stop(_ mode: String = "immediate") throws {
        try Self.script("stop", folder, mode)
    }

    /// The connection string for a role and database.
    package func string(_ database: String, role: String = "postgres") -> String {
        "host=\(folder) dbname=\(database) user=\(role)"
    }

    /// A fresh database with the hub's schema.
    package func database() throws -> Database {
        let number = serial.withLock { serial in
            serial += 1
            return serial
        }
        let name = "test_\(number)"
        let admin = try BlockingConnection(string("postgres"))
        try admin.execute("create database \(name) template carillon_template owner carillon_owner")
        return Database(cluster: self, name: name)
    }

    /// An existing database: a copy has those of its origin.
    package func database(named name: String) -> Database {
        Database(cluster: self, name: name)
    }

    /// Loads `sql/` into the template, as `carillon migrate` does.
    private func prepare() throws {
        try BlockingConnection(string("postgres")).execute("create database carillon_template")
        let admin = try BlockingConnection(string("carillon_template"))
        try admin.execute(SQLFolder.text("roles.sql"))
        try admin.execute("alter database carillon_template owner to carillon_owner")
        let owner = try BlockingConnection(string("carillon_template", role: "carillon_owner"))
        try owner.execute(SQLFolder.text("bootstrap.sql"))
        for name in try SQLFolder.names("migrations") {
            try owner.execute(SQLFolder.text("migrations/\(name)"))
            _ = try owner.query(
                "insert into sync.migration (version, name, checksum) values ($1::int, $2, '-')",
                [String(Int(name.prefix(4)) ?? 0), name])
        }
        let functions = try SQLFolder.names("functions").map { try SQLFolder.text("functions/\($0)") }
        try owner.execute("begin; \(functions.joined(separator: "\n;\n")); commit")
    }

    // MARK: The server's programs

    private static func script(_ arguments: String...) throws {
        try script(arguments)
    }

    private static func script(_ arguments: [String]) throws {
        let child = try spawn(arguments, input: nil)
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        guard status == 0 else {
            throw Failure(description: "cluster \(arguments) failed; see the test's error output")
        }
    }

    /// Not Foundation's `Process`: it waits until every descriptor inherited by a child is closed, and a server started
    /// there inherits them.
    private static func spawn(_ arguments: [String], input: Int32?) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        // The test's own output may be a pipe whose reader waits for its end, so the server writes to its log.
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        if arguments.first != "create" { posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) }
        // A server would hold other tests' sockets open, and these tests would wait for their end in vain.
        cd_close_from(&actions, 3)
        var words = (["/bin/bash", "-c", program, "cluster"] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        words.append(nil)
        var child = pid_t()
        let code = posix_spawn(&child, "/bin/bash", &actions, nil, words, environ)
        guard code == 0 else { throw Failure(description: "bash: \(String(cString: strerror(code)))") }
        return child
    }

    /// PostgreSQL refuses to run as root; its programs are not on Debian's PATH.
    private static let program = #"""
        set -eu
        action=$1 folder=$2
        bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)
        [ -n "$bin" ] || bin=$(dirname "$(command -v initdb)")
        as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else "$@"; fi; }
        case $action in
        create)
            mkdir -m 700 "$folder"
            if [ "$(id -u)" = 0 ]; then chown postgres:postgres "$folder"; fi
            cd "$folder"
            as "$bin/initdb" -A trust -U postgres -E UTF8 --locale=C --no-sync -D "$folder/data" ;;
        copy)
            mkdir -m 700 "$folder"
            if [ "$(id -u)" = 0 ]; then chown postgres:postgres "$folder"; fi
            cd "$folder"
            as "$bin/pg_basebackup" -h "$3" -U postgres -D "$folder/data" -X stream -c fast --no-sync
            as touch "$folder/data/standby.signal" ;;
        promote)
            cd "$folder"
            as "$bin/pg_ctl" -D "$folder/data" -w -t 60 promote >/dev/null ;;
        start)
            cd "$folder"
            as "$bin/pg_ctl" -D "$folder/data" -w -t 60 -l "$folder/log" -o "-c listen_addresses='' -k '$folder' \
                -c fsync=off -c full_page_writes=off -c max_connections=200 -c autovacuum=off" start >/dev/null ;;
        stop)
            cd "$folder"
            as "$bin/pg_ctl" -D "$folder/data" -w -t 60 -m "$3" stop ;;
        guard)
            cat >/dev/null
            kill -QUIT "$(head -1 "$folder/data/postmaster.pid" 2>/dev/null)" 2>/dev/null || true
            rm -rf "$folder" ;;
        esac
        """#
}

/// The files of `sql/` in the source tree.
private enum SQLFolder {
    private static let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("sql")

    static func text(_ name: String) throws -> String {
        try String(contentsOf: path.appendingPathComponent(name), encoding: .utf8)
    }

    static func names(_ folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path.appendingPathComponent(folder).path).sorted()
    }
}

/// A database with the hub's schema.
package struct Database: Sendable {
    package let cluster: Cluster
    package let name: String

    /// Connects as the role that owns the schema.
    package func owner() throws -> BlockingConnection {
        try BlockingConnection(cluster.string(name, role: "carillon_owner"))
    }

    /// Connects as superuser, to end backends and the like.
    package func admin() throws -> BlockingConnection {
        try BlockingConnection(cluster.string(name))
    }

    /// The connection string of the hub.
    package var hub: String { cluster.string(name, role: "carillon_hub") }
}
