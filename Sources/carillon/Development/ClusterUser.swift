import FoundationEssentials
import Glibc

/// The user that a private cluster runs as: the current user, or `postgres` for root, which PostgreSQL refuses.
struct ClusterUser: Equatable {
    let userID: uid_t
    let groupID: gid_t
    /// Arguments before a program that make it run as this user.
    private let prefix: [String]

    /// - Throws: a failure with advice, when we are root and there is no user `postgres`.
    static func current() throws(Failure) -> ClusterUser {
        guard geteuid() == 0 else { return ClusterUser(userID: geteuid(), groupID: getegid(), prefix: ["setpriv"]) }
        guard let entry = getpwnam("postgres") else {
            throw Failure("PostgreSQL does not run as root, and there is no user postgres: apt install postgresql")
        }
        let (user, group) = (entry.pointee.pw_uid, entry.pointee.pw_gid)
        return ClusterUser(
            userID: user, groupID: group,
            prefix: ["setpriv", "--reuid=\(user)", "--regid=\(group)", "--clear-groups"])
    }

    /// The arguments that run a program as this user.
    func running(_ arguments: [String]) -> [String] {
        prefix + ["--"] + arguments
    }

    /// As `running`, and the program gets SIGINT when the thread that started it ends: PostgreSQL's fast shutdown.
    func endingWithUs(_ arguments: [String]) -> [String] {
        prefix + ["--pdeathsig", "INT", "--"] + arguments
    }

    /// Whether this user may enter a folder and all folders above it.
    func mayEnter(_ folder: String) -> Bool {
        guard let exit = try? ChildProcess.run(running(["test", "-x", folder])) else { return false }
        return exit.isSuccess
    }

    /// Makes a folder that only this user can access, or checks that an existing one is so.
    ///
    /// The check matters below /tmp, where anyone may have made it first.
    func makePrivateFolder(_ path: String) throws(Failure) {
        if mkdir(path, 0o700) == 0 {
            if geteuid() != userID, lchown(path, userID, groupID) != 0 {
                throw Failure("\(path): cannot be given to user \(userID): \(String(cString: strerror(errno)))")
            }
            return
        }
        guard errno == EEXIST else {
            throw Failure("\(path): cannot be made: \(String(cString: strerror(errno)))")
        }
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == userID,
            status.st_mode & 0o077 == 0
        else {
            throw Failure("\(path) is there, but is no folder of user \(userID) with mode 0700: remove it")
        }
    }
}
