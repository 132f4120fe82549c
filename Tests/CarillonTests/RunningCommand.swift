import CDescriptorGuard
import Foundation
import Glibc

/// The program under test as a process; killed when the test releases it.
///
/// Not Foundation's `Process`: it closes in a child only the descriptors that it counted before, so the child may keep
/// another test's connection open; and it needs a run loop in the waiting thread.
final class RunningCommand {
    struct NotStarted: Error {
        let code: Int32
    }

    private let output: FileHandle
    private let errors: URL
    private var unread = ""
    private let processID: pid_t
    /// The status from `waitpid(2)`, once the process has ended.
    private var waitStatus: Int32?

    /// - Parameters:
    ///   - isMixed: whether standard error is read with standard output.
    ///   - added: variables beside those of the tests.
    convenience init(_ arguments: [String], isMixed: Bool = false, environment added: [String: String] = [:]) throws {
        try self.init(program: Self.carillon, arguments, isMixed: isMixed, environment: added)
    }

    /// A bash script, as a user would type it.
    convenience init(shell script: String, isMixed: Bool = false) throws {
        try self.init(program: "/bin/bash", ["-c", script], isMixed: isMixed, environment: [:])
    }

    /// Beside the test program, where SwiftPM puts all products.
    static var carillon: String {
        let own = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        return own.deletingLastPathComponent().appendingPathComponent("carillon").path
    }

    private init(program: String, _ arguments: [String], isMixed: Bool, environment added: [String: String]) throws {
        let errors = FileManager.default.temporaryDirectory
            .appendingPathComponent("carillon-errors-\(UUID().uuidString)")
        let environment = ProcessInfo.processInfo.environment
            .filter { name, _ in !name.hasPrefix("CARILLON_") && name != "DATABASE_URL" }
            .merging(added) { _, new in new }
            .map { "\($0)=\($1)" }
        let pipe = Pipe()
        processID = try Self.spawn(
            [program] + arguments, environment, output: pipe.fileHandleForWriting.fileDescriptor,
            errors: isMixed ? nil : errors.path)
        try pipe.fileHandleForWriting.close()
        output = pipe.fileHandleForReading
        self.errors = errors
    }

    deinit {
        if waitStatus == nil { _ = stop(SIGKILL) }
        try? FileManager.default.removeItem(at: errors)
    }

    var complaint: String { (try? String(contentsOf: errors, encoding: .utf8)) ?? "" }

    /// Waits for a line of standard output; nil if the output ends first.
    func line(beginningWith prefix: String) -> String? {
        line { $0.hasPrefix(prefix) }
    }

    /// Waits for a line of standard output that contains the text; nil if the output ends first.
    func line(containing words: String) -> String? {
        line { $0.contains(words) }
    }

    func rest() -> String {
        while case let data = output.availableData, !data.isEmpty { unread += String(decoding: data, as: UTF8.self) }
        defer { unread = "" }
        return unread
    }

    private func line(where isMeant: (String) -> Bool) -> String? {
        while true {
            if let end = unread.firstIndex(of: "\n") {
                let line = String(unread[..<end])
                unread.removeSubrange(...end)
                if isMeant(line) { return line }
                continue
            }
            let data = output.availableData
            guard !data.isEmpty else { return nil }
            unread += String(decoding: data, as: UTF8.self)
        }
    }

    func signal(_ signal: Int32) {
        // Its number is not reused until it is waited for.
        if waitStatus == nil { kill(processID, signal) }
    }

    func stop(_ number: Int32) -> Int32 {
        signal(number)
        return end()
    }

    /// Waits for the end.
    ///
    /// - Returns: its exit status, or the number of the signal that ended it.
    func end() -> Int32 {
        var status: Int32 = 0
        if let waitStatus {
            status = waitStatus
        } else {
            while waitpid(processID, &status, 0) < 0, errno == EINTR {}
            waitStatus = status
        }
        return status & 0x7F == 0 ? status >> 8 & 0xFF : status & 0x7F
    }

    /// - Parameter errors: a file for standard error; nil for that of `output`.
    private static func spawn(
        _ arguments: [String], _ environment: [String], output: Int32, errors: String?
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        if let errors {
            posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        } else {
            posix_spawn_file_actions_adddup2(&actions, output, 2)
        }
        cd_close_from(&actions, 3)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Loop threads block all signals, and a child inherits its creator's mask.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        // Its own process group, so that Ctrl-C in the tests does not end it before they have looked.
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        var words = arguments.map { strdup($0) } + [nil]
        var variables = environment.map { strdup($0) } + [nil]
        defer { for text in words + variables { free(text) } }
        var child = pid_t()
        let code = posix_spawn(&child, arguments[0], &actions, &attributes, &words, &variables)
        guard code == 0 else { throw NotStarted(code: code) }
        return child
    }
}
