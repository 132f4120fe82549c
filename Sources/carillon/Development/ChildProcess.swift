import CLinux
import FoundationEssentials
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
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
        let environment = ["PATH=\(path):/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "TZ=UTC"]
        var child: pid_t = 0
        let code = withStringList(arguments) { argumentList in
            withStringList(environment) { environmentList in
                cl_spawn(&child, argumentList, environmentList, output ?? -1)
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
