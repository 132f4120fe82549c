import CLinux
import FoundationEssentials
import Glibc

/// A child process. It inherits no descriptor, signal mask or environment variable, only what it is given.
struct ChildProcess {
    /// The exit status, or 128 plus the number of the signal that ended the process, as in shells.
    struct Exit: Equatable {
        let status: Int32
        var isSuccess: Bool { status == 0 }
    }

    let processID: pid_t

    /// Starts a program in its own session, so a terminal's Ctrl-C does not reach it before we are done.
    ///
    /// - Parameters:
    ///   - arguments: the program, found in PATH, and its arguments.
    ///   - output: descriptor for standard output and standard error; nil for `/dev/null`.
    ///   - more: variables, as NAME=VALUE, beside PATH, locale and time zone.
    static func start(
        _ arguments: [String], output: Int32? = nil, environment more: [String] = []
    ) throws(Failure) -> ChildProcess {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
        let environment = ["PATH=\(path):/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "TZ=UTC"] + more
        var child: pid_t = 0
        let code = withStringList(arguments) { argumentList in
            withStringList(environment) { environmentList in
                cl_spawn(&child, argumentList, environmentList, output ?? -1, -1)
            }
        }
        guard code == 0 else {
            throw Failure("\(arguments[0]) cannot be started: \(String(cString: strerror(code)))")
        }
        return ChildProcess(processID: child)
    }

    func wait() -> Exit {
        var status: Int32 = 0
        while waitpid(processID, &status, 0) < 0 {
            // Something else has reaped the process.
            guard errno == EINTR else { return Exit(status: 255) }
        }
        let signal = status & 0x7f
        return Exit(status: signal == 0 ? (status >> 8) & 0xff : 128 + signal)
    }

    static func run(_ arguments: [String], output: Int32? = nil) throws(Failure) -> Exit {
        try start(arguments, output: output).wait()
    }
}

/// Calls `body` with the texts as a null-terminated list of C strings, for exec.
private func withStringList<Result>(
    _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    var list = texts.map { strdup($0) }
    list.append(nil)
    defer { for text in list { free(text) } }
    return list.withUnsafeMutableBufferPointer { buffer in
        // Never empty: it ends with null.
        body(buffer.baseAddress.unsafelyUnwrapped)
    }
}
