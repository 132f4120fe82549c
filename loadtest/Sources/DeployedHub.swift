import CLinux
import Foundation
import Glibc

/// One `carillon serve` that this program has started; its log is a file.
final class DeployedHub {
    private let processID: pid_t
    private let log: URL
    /// How it ended: its status, or 128 plus the number of a signal.
    private(set) var status: Int32?

    /// - Parameters:
    ///   - socket: a listening socket that it gets as systemd passes them, if any.
    ///   - log: a file that does not exist.
    init(
        _ program: String, _ arguments: [String], environment: [String: String], socket: Int32? = nil, log: URL
    ) throws {
        self.log = log
        let output = open(log.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard output >= 0 else { throw LoadFailure("\(log.path): \(String(cString: strerror(errno)))") }
        defer { close(output) }
        // The shell that becomes the hub knows its own process id, which the hub wants to be told.
        let shell =
            socket == nil ? [] : ["/bin/sh", "-c", #"LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@""#]
        var child: pid_t = 0
        let code = withStringList(shell + [program] + arguments) { arguments in
            withStringList(environment.map { "\($0)=\($1)" }) { environment in
                cl_spawn(&child, arguments, environment, output, socket ?? -1)
            }
        }
        guard code == 0 else { throw LoadFailure("\(program) cannot be started: \(String(cString: strerror(code)))") }
        processID = child
    }

    /// Whether a line of its log has that text.
    func says(_ text: String) throws -> Bool {
        if text.isEmpty || words.contains(text) { return true }
        guard !hasEnded else { throw LoadFailure("a hub ended with status \(status ?? 0): \(words.suffix(2_000))") }
        return false
    }

    var hasEnded: Bool {
        var code: Int32 = 0
        if status == nil, waitpid(processID, &code, WNOHANG) == processID {
            let signal = code & 0x7F
            status = signal == 0 ? (code >> 8) & 0xFF : 128 + signal
        }
        return status != nil
    }

    func tell(_ signal: Int32) {
        if !hasEnded { kill(processID, signal) }
    }

    /// Ends it at once, and waits for that.
    func end() {
        tell(SIGKILL)
        while !hasEnded { usleep(1_000) }
    }

    private var words: String {
        String(decoding: FileManager.default.contents(atPath: log.path) ?? Data(), as: UTF8.self)
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
