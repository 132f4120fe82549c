import FoundationEssentials
import Glibc
import Logging
import Postgres
import Reactor
import Synchronization

/// The server process of a private cluster.
///
/// A dedicated thread starts the process and waits for its end. The kernel sends the process a fast shutdown (SIGINT) when
/// that thread, and so this process, ends. Another server of this folder, manual or left by a killed hub, is stopped, too.
final class Postmaster {
    private let programs: PostgresPrograms
    private let folders: ClusterFolders
    private let user: ClusterUser
    /// Set when the last started process has ended; nil before the first start.
    private var ended: Latch?
    private let unasked: UnexpectedExit

    /// How long a start may take, crash recovery included.
    private static let startTimeout = Duration.seconds(120)
    /// How long a fast shutdown may take before an immediate one.
    private static let stopTimeout = Duration.seconds(10)
    /// How long the thread that started a process may take to notice its end.
    private static let reapTimeout = Duration.seconds(1)
    private static let pollInterval = Duration.milliseconds(20)

    /// - Parameter endedUnasked: called on its own thread when a started server ends without `stop`.
    init(
        programs: PostgresPrograms, folders: ClusterFolders, user: ClusterUser,
        endedUnasked: @escaping @Sendable () -> Void = {}
    ) {
        unasked = UnexpectedExit(report: endedUnasked)
        self.programs = programs
        self.folders = folders
        self.user = user
    }

    /// Starts the server, and returns when it accepts connections.
    ///
    /// - Throws: a failure with the server's last log message.
    func start() throws(Failure) {
        stop()
        clearStaleFiles()
        let deadline = ContinuousClock.now + Self.startTimeout
        var lastWords = "nothing was said"
        while ContinuousClock.now < deadline {
            let logStart = size(of: folders.log)
            try launch()
            guard let reason = waitUntilReady(deadline: deadline) else {
                unasked.expectNone()
                if ended?.isSet == true { unasked.tell() }
                return
            }
            lastWords = reason
            guard ended?.isSet == true else { break }
            lastWords = words(from: logStart) ?? lastWords
            // Backends of a killed postmaster live on for a moment, and a new one refuses to start beside them.
            guard lastWords.contains("is still in use") || lastWords.contains("already exists") else { break }
            pause()
        }
        stop()
        throw Failure("PostgreSQL did not start: \(lastWords) (see \(folders.log))")
    }

    /// Stops this folder's server, even if another process started it. Tries a fast shutdown, then an immediate one, then
    /// SIGKILL.
    ///
    /// Returns when the process is gone: its lock file is removed a moment earlier.
    func stop() {
        unasked.expectOne()
        guard let processID = runningProcess() else { return }
        for (signal, timeout) in [(SIGINT, Self.stopTimeout), (SIGQUIT, .seconds(5)), (SIGKILL, .seconds(5))] {
            kill(processID, signal)
            let deadline = ContinuousClock.now + timeout
            while ContinuousClock.now < deadline {
                guard worksHere(processID) else {
                    ended?.wait(timeout: Self.reapTimeout)
                    return
                }
                pause()
            }
        }
    }

    /// This folder's postmaster: the process named in the lock file, if it works in the data folder. The check is needed:
    /// after a crash, another process may have the number.
    func runningProcess() -> pid_t? {
        guard let text = try? String(contentsOfFile: folders.data + "/postmaster.pid", encoding: .utf8),
            let line = text.split(separator: "\n").first, let processID = pid_t(line), processID > 1,
            worksHere(processID)
        else { return nil }
        return processID
    }

    /// Whether a process with this number exists and works in the data folder.
    private func worksHere(_ processID: pid_t) -> Bool {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/\(processID)/cwd", &path, path.count)
        guard count > 0, let data = realpath(folders.data, nil) else { return false }
        defer { free(data) }
        let folder = path[..<count].map { UInt8(bitPattern: $0) }
        return String(decoding: folder, as: UTF8.self) == String(cString: data)
    }

    private func launch() throws(Failure) {
        let arguments = user.endingWithUs(["\(programs.folder)/postgres", "-D", folders.data])
        let log = open(folders.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard log >= 0 else { throw Failure("\(folders.log): cannot be written: \(String(cString: strerror(errno)))") }
        let launch = Launch()
        ended = launch.ended
        let unasked = unasked
        let thread = try? SystemThread(name: "postmaster") {
            do throws(Failure) {
                let child = try ChildProcess.start(arguments, output: log)
                close(log)
                launch.started.set()
                _ = child.wait()
            } catch {
                close(log)
                launch.failure.withLock { $0 = error }
                launch.started.set()
            }
            launch.ended.set()
            unasked.tell()
        }
        guard let thread else {
            close(log)
            throw Failure("no thread can be started that waits for PostgreSQL")
        }
        thread.detach()
        launch.started.wait()
        if let failure = launch.failure.withLock({ $0 }) { throw failure }
    }

    /// - Returns: nil when the server accepts connections; the reason when it ended or the time is over.
    private func waitUntilReady(deadline: ContinuousClock.Instant) -> String? {
        let url = folders.databaseURL(role: "postgres", database: "postgres")
        var reason = "it took too long"
        while ContinuousClock.now < deadline {
            do {
                _ = try BlockingConnection(url)
                return nil
            } catch {
                reason = error.description
            }
            if ended?.wait(timeout: Self.pollInterval) == true { return reason }
        }
        return reason
    }

    /// Removes lock files that no live server holds. We hold the folder's own lock.
    private func clearStaleFiles() {
        guard runningProcess() == nil else { return }
        for file in [
            folders.data + "/postmaster.pid", folders.socket + "/.s.PGSQL.5432.lock", folders.socket + "/.s.PGSQL.5432",
        ] {
            unlink(file)
        }
    }

    /// Waits between polls of something that no descriptor signals.
    private func pause() {
        usleep(20_000)
    }

    private func size(of path: String) -> UInt64 {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.size] as? UInt64) ?? 0
    }

    /// The last FATAL line that the server logged after an offset, or else its last line.
    private func words(from start: UInt64) -> String? {
        let file = open(folders.log, O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        guard file >= 0, lseek(file, off_t(start), SEEK_SET) >= 0 else { return nil }
        let lines = Descriptor.read(file, atMost: 64 << 10).split(separator: "\n")
        return (lines.last { $0.contains("FATAL") } ?? lines.last).map(String.init)
    }
}

/// Reports an unexpected end of the server, once.
private final class UnexpectedExit: Sendable {
    private let isSurprise = Atomic<Bool>(false)
    private let report: @Sendable () -> Void

    init(report: @escaping @Sendable () -> Void) {
        self.report = report
    }

    /// The server has started and must stay.
    func expectNone() { isSurprise.store(true, ordering: .sequentiallyConsistent) }

    /// The server is about to be stopped.
    func expectOne() { isSurprise.store(false, ordering: .sequentiallyConsistent) }

    /// The server has ended.
    func tell() {
        if isSurprise.exchange(false, ordering: .sequentiallyConsistent) { report() }
    }
}

/// How the server's start went: what the thread that starts it reports to its caller.
private final class Launch: Sendable {
    let started = Latch()
    let ended = Latch()
    let failure = Mutex<Failure?>(nil)
}
