import Foundation
import Glibc

/// A program started by this one, with nothing of ours but its arguments: no descriptor, signal mask or variable.
struct ChildProcess {
    /// How a program ended: its exit status, or 128 and the number of the signal that ended it, as shells count.
    struct Exit: Equatable {
        let status: Int32
        var isSuccess: Bool { status == 0 }
    }

    let processID: pid_t

    /// Starts a program in a session of its own, so that a terminal's Ctrl-C does not reach it before we are done.
    ///
    /// - Parameters:
    ///   - arguments: the program, looked up in PATH, and its arguments.
    ///   - output: descriptor that becomes its standard output and standard error; `/dev/null` where nil.
    static func start(_ arguments: [String], output: Int32? = nil) throws(Failure) -> ChildProcess {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for descriptor: Int32 in [1, 2] {
            if let output {
                posix_spawn_file_actions_adddup2(&actions, output, descriptor)
            } else {
                posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
            }
        }
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        // Our folder may be closed to the user that the program runs as.
        posix_spawn_file_actions_addchdir_np(&actions, "/")

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        var every = sigset_t()
        sigemptyset(&none)
        sigfillset(&every)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &every)
        let newSession: Int32 = 0x80  // POSIX_SPAWN_SETSID, which glibc shows only under _GNU_SOURCE.
        posix_spawnattr_setflags(
            &attributes, Int16(newSession | Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)))

        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
        let environment = ["PATH=\(path):/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "TZ=UTC"]
        var child: pid_t = 0
        let code = withStringList(arguments) { argumentList in
            withStringList(environment) { environmentList in
                posix_spawnp(&child, arguments[0], &actions, &attributes, argumentList, environmentList)
            }
        }
        guard code == 0 else {
            throw Failure("\(arguments[0]) cannot be started: \(String(cString: strerror(code)))")
        }
        return ChildProcess(processID: child)
    }

    /// Blocks until the program has ended.
    func wait() -> Exit {
        var status: Int32 = 0
        while waitpid(processID, &status, 0) < 0 {
            // Nothing to wait for: someone else has reaped it.
            guard errno == EINTR else { return Exit(status: 255) }
        }
        let signal = status & 0x7f
        return Exit(status: signal == 0 ? (status >> 8) & 0xff : 128 + signal)
    }

    /// Runs a program to its end.
    static func run(_ arguments: [String], output: Int32? = nil) throws(Failure) -> Exit {
        try start(arguments, output: output).wait()
    }
}

/// Calls `body` with the texts as the null-terminated list of C strings that exec takes.
private func withStringList<Result>(
    _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    var list = texts.map { strdup($0) }
    list.append(nil)
    defer { for text in list { free(text) } }
    return list.withUnsafeMutableBufferPointer { buffer in
        // Never empty: the closing null is there.
        body(buffer.baseAddress.unsafelyUnwrapped)
    }
}
