import FoundationEssentials
import Glibc
import Reactor

/// Another process of `carillon dev`: a hub beside the first one, or Redis.
///
/// A dedicated thread starts it and waits for its end. The kernel sends it SIGINT when that thread ends, and so when this
/// process does.
final class Companion: Sendable {
    /// As people are told.
    let name: String
    /// What it writes.
    let log: String
    private let ended = Latch()
    private let isStopping = Locked(false)
    private let process = Locked<pid_t?>(nil)

    private static let pollMicroseconds: UInt32 = 20_000

    /// Starts it.
    ///
    /// - Parameters:
    ///   - arguments: the program, found in PATH, and its arguments.
    ///   - environment: all that it gets, beside PATH.
    ///   - tells: says so where it ends unasked.
    init(
        _ name: String, _ arguments: [String], environment: [String: String] = [:], log: String, tells: Bool = false
    ) throws(Failure) {
        (self.name, self.log) = (name, log)
        unlink(log)
        let file = open(log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw Failure("\(log): cannot be written: \(String(cString: strerror(errno)))") }
        let (started, failure) = (Latch(), Locked<Failure?>(nil))
        // In the present folder, for the paths among its settings.
        let folder = FileManager.default.currentDirectoryPath
        let words = ["env", "-C", folder, "setpriv", "--pdeathsig", "INT", "--"] + arguments
        let variables = environment.map { "\($0)=\($1)" }
        let thread = try? SystemThread(name: "companion") { [self] in
            do throws(Failure) {
                let child = try ChildProcess.start(words, output: file, environment: variables)
                process.withLock { $0 = child.processID }
                started.set()
                _ = child.wait()
                if tells, !isStopping.withLock({ $0 }) { say("\(name) has ended: its log is \(log)") }
                // Its number may be another's from now on.
                process.withLock { $0 = nil }
            } catch {
                failure.withLock { $0 = error }
                started.set()
            }
            close(file)
            ended.set()
        }
        guard let thread else {
            close(file)
            throw Failure("no thread can be started that waits for \(name)")
        }
        thread.detach()
        started.wait()
        if let failure = failure.withLock({ $0 }) { throw failure }
    }

    /// Waits until one of its lines says so.
    ///
    /// - Parameter stop: ends the waiting; the answer is nil then.
    /// - Throws: where it has ended, or says nothing of the kind in time.
    func wait<Found>(
        seconds: Int = 60, unless stop: Latch? = nil, for found: (String) -> Found?
    ) throws(Failure) -> Found? {
        for _ in 0..<seconds * 1_000_000 / Int(Self.pollMicroseconds) {
            if stop?.isSet == true { return nil }
            let hasEnded = ended.isSet
            let lines = (FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? "")
                .split(separator: "\n").map(String.init)
            if let found = lines.lazy.compactMap(found).first { return found }
            if hasEnded { throw Failure("\(name) has ended: \(lines.last ?? "it said nothing") (see \(log))") }
            usleep(Self.pollMicroseconds)
        }
        throw Failure("\(name) did not become ready (see \(log))")
    }

    /// Begins to end it, as Ctrl-C does.
    func interrupt() {
        isStopping.withLock { $0 = true }
        process.withLock { if let process = $0 { kill(process, SIGINT) } }
    }

    /// Ends it, or by force if it takes long.
    func stop() {
        interrupt()
        if ended.wait(timeout: .seconds(15)) { return }
        process.withLock { if let process = $0 { kill(process, SIGKILL) } }
        ended.wait(timeout: .seconds(5))
    }
}
