import FoundationEssentials
import Glibc

/// The folders of a private cluster: its data and its socket.
///
/// Both are in DIR if possible. The data goes to /var/tmp when the cluster's user cannot enter DIR (a checkout in root's
/// closed home). The socket goes to a short path when DIR is too deep for a socket's name. DIR records the choice.
struct ClusterFolders: Equatable {
    /// Contains `data`, the lock and the log.
    let base: String
    let socket: String

    var data: String { base + "/data" }
    /// A new cluster is made here and then renamed to `data`, so an incomplete one is never used.
    var unfinishedData: String { base + "/data.unfinished" }
    var log: String { base + "/postgres.log" }
    var lock: String { base + "/lock" }

    /// Most bytes of a socket's path: `sun_path` has 108 with the closing zero.
    static let socketPathBytesMax = 107
    private static let socketName = "/.s.PGSQL.5432"

    /// Chooses the folders for DIR, or finds those chosen before, and creates them.
    static func prepare(directory: String, user: ClusterUser) throws(Failure) -> ClusterFolders {
        let mark = mark(of: directory)
        var base = directory + "/postgres"
        let record = directory + "/postgres.path"
        // Where another one has written it, the cluster might be theirs.
        if let recorded = try Descriptor.own(record) { base = recorded.trimmed }
        try user.makePrivateFolder(base)
        if !user.mayEnter(base) {
            _ = rmdir(base)
            base = "/var/tmp/carillon-\(user.userID)-\(mark)"
            try user.makePrivateFolder(base)
            try Descriptor.replace(record, with: base + "\n")
        }
        return ClusterFolders(base: base, socket: try socketFolder(base: base, mark: mark, user: user))
    }

    private static func socketFolder(base: String, mark: String, user: ClusterUser) throws(Failure) -> String {
        let near = base + "/socket"
        if fits(near) {
            try user.makePrivateFolder(near)
            return near
        }
        let runtime = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"] ?? ""
        for parent in [runtime, "/tmp"] where parent.hasPrefix("/") {
            let far = "\(parent)/carillon-\(user.userID)-\(mark)"
            guard fits(far), (try? user.makePrivateFolder(far)) != nil, user.mayEnter(far) else { continue }
            return far
        }
        throw Failure("no folder with a path short enough for PostgreSQL's socket: choose a shorter one with --dir")
    }

    /// Whether a socket in the folder has a short enough name that fits a comma-separated list in the configuration.
    static func fits(_ folder: String) -> Bool {
        (folder + socketName).utf8.count <= socketPathBytesMax
            && !folder.contains { $0 == "," || $0 == "\"" || $0 == "'" || $0 == "\\" || $0.isNewline }
    }

    /// A name for DIR that is unique elsewhere.
    private static func mark(of directory: String) -> String {
        String(checksum(of: directory).prefix(16))
    }

    /// The connection URI for a role. It works with `psql` and with drivers that do not know libpq keywords.
    func databaseURL(role: String, database: String) -> String {
        let host = socket.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            let isPlain = byte < 0x80 && (character.isLetter || character.isNumber || "-._~".contains(character))
            return isPlain ? String(character) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
        }.joined()
        return "postgresql://\(role)@/\(database)?host=\(host)&port=5432"
    }
}
