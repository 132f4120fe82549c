// TestRedis: private Redis servers and sentinels for tests, and a client that blocks.
//
// Each server has its own folder below the temporary folder, listens only on the loopback, and ends with the test
// process, however that ends: a guard process waits for its standard input to close.

import CDescriptorGuard
import Foundation
import Glibc
import Reactor

/// A private server of Redis, or a sentinel of one (`redis-server`, Debian's package of that name).
package final class RedisServer: Sendable {
    /// Why the fixture failed.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Its port on 127.0.0.1, without TLS.
    package let port: UInt16
    /// Its port for TLS; 0 without TLS.
    package let tlsPort: UInt16
    private let folder: String
    private let words: [String]
    /// Nil while it is stopped.
    private let run = Locked<Run?>(nil)

    private struct Run {
        let pid: pid_t
        let guardian: pid_t
        /// Held open by this process; the guard acts when it closes.
        let lifeline: Int32
    }

    /// The system's, or where `deploy/development/packages` puts it.
    private static let program: String? = {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        // Another, such as Valkey's, by the environment.
        let chosen = ProcessInfo.processInfo.environment["REDIS_SERVER"].map { [$0] }
        return (chosen ?? ["/usr/bin/redis-server", root.appendingPathComponent(".build/tools/redis-server").path])
            .first {
                access($0, X_OK) == 0
            }
    }()

    /// Starts a server that keeps nothing on disk, and waits until it answers.
    ///
    /// - Parameters:
    ///   - arguments: of `redis-server`, such as `--requirepass`.
    ///   - tls: its arguments for TLS, such as `--tls-cert-file`; none: no TLS. The port is chosen here.
    package convenience init(_ arguments: [String] = [], tls: [String] = []) throws {
        try self.init { folder, port, tlsPort in
            let secured = tls.isEmpty ? [] : ["--tls-port", "\(tlsPort)"] + tls
            return [
                "--port", "\(port)", "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", folder,
                "--logfile", "\(folder)/log", "--unixsocket", "\(folder)/socket", "--save", "", "--appendonly", "no",
                "--maxmemory-policy", "noeviction", "--enable-debug-command", "yes",
            ] + secured + arguments
        }
    }

    /// Starts a sentinel, which alone decides on a failover when the master was silent for a second.
    ///
    /// - Parameters:
    ///   - master: the server watched.
    ///   - service: its name at the sentinel.
    ///   - lines: of the sentinel's configuration, such as `requirepass`, or `sentinel auth-pass`.
    package convenience init(sentinelOf master: RedisServer, service: String, lines: [String] = []) throws {
        try self.init { folder, port, _ in
            let all = [
                "port \(port)", "bind 127.0.0.1", "protected-mode no", "dir \(folder)", "logfile \(folder)/log",
                "unixsocket \(folder)/socket", "sentinel monitor \(service) 127.0.0.1 \(master.port) 1",
                "sentinel down-after-milliseconds \(service) 1000", "sentinel failover-timeout \(service) 5000",
            ]
            let path = "\(folder)/sentinel.conf"
            try (all + lines).map { $0 + "\n" }.joined().write(toFile: path, atomically: true, encoding: .utf8)
            return [path, "--sentinel"]
        }
    }

    /// Another program may take a port between its choice and the start, so there are several attempts.
    private init(_ words: (_ folder: String, _ port: UInt16, _ tlsPort: UInt16) throws -> [String]) throws {
        guard Self.program != nil else {
            throw Failure(description: "redis-server is missing: deploy/development/packages redis")
        }
        let root = FileManager.default.temporaryDirectory.path
        let folder = "\(root)/carillon-redis-\(getpid())-\(UInt32.random(in: .min ... .max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        self.folder = folder
        var attempts = 0
        while true {
            let (port, tlsPort) = (try Self.freePort(), try Self.freePort())
            let words = try words(folder, port, tlsPort)
            do {
                run.withLock { [words] in $0 = try? Self.begin(words, folder) }
                try Self.wait(run.withLock { $0?.pid }, folder)
                self.words = words
                self.port = port
                self.tlsPort = words.contains("--tls-port") ? tlsPort : 0
                return
            } catch {
                Self.end(run.withLock { $0.take() }, SIGKILL)
                attempts += 1
                guard attempts < 5 else {
                    try? FileManager.default.removeItem(atPath: folder)
                    throw error
                }
            }
        }
    }

    deinit {
        kill()
        try? FileManager.default.removeItem(atPath: folder)
    }

    // MARK: What tests do to it

    /// Ends it with SIGTERM, and waits until it is gone.
    package func stop() { Self.end(run.withLock { $0.take() }, SIGTERM) }

    /// Ends it like a crash, and waits until it is gone.
    package func kill() { Self.end(run.withLock { $0.take() }, SIGKILL) }

    /// Has it hang (SIGSTOP): the kernel still takes connections and bytes for it.
    package func pause() { signal(SIGSTOP) }

    /// Has it go on after `pause`.
    package func resume() { signal(SIGCONT) }

    /// Ends it like a crash, if it runs, and starts it anew at the same port, empty.
    package func restart() throws {
        kill()
        let end = ContinuousClock.now + .seconds(60)
        while true {
            let begun = try Self.begin(words, folder)
            run.withLock { $0 = begun }
            do {
                return try Self.wait(begun.pid, folder)
            } catch {
                kill()
                // Somebody may have taken the port for a moment.
                guard ContinuousClock.now < end else { throw error }
                usleep(100_000)
            }
        }
    }

    private func signal(_ number: Int32) {
        if let pid = run.withLock({ $0?.pid }) { _ = Glibc.kill(pid, number) }
    }

    // MARK: Processes

    private static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isBound else { throw Failure(description: "no free port on the loopback") }
        return UInt16(bigEndian: address.sin_port)
    }

    /// Starts the server, and a guard that ends it and removes the folder when this process ends.
    private static func begin(_ words: [String], _ folder: String) throws -> Run {
        unlink("\(folder)/socket")
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Failure(description: "no pipe") }
        // A server that inherited this end would keep the guard waiting for itself.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        do {
            let pid = try spawn([program ?? ""] + words, input: nil)
            do {
                let script = #"read -r word && exit; kill -KILL "$1"; rm -rf "$2""#
                let guardian = try spawn(["/bin/bash", "-c", script, "guard", "\(pid)", folder], input: ends[0])
                return Run(pid: pid, guardian: guardian, lifeline: ends[1])
            } catch {
                _ = Glibc.kill(pid, SIGKILL)
                reap(pid)
                throw error
            }
        } catch {
            close(ends[1])
            throw error
        }
    }

    /// Worst interleavings: the server's number is another process's when the guard acts, or these tests end while the
    /// server is ending. So the guard goes only when the server has ended, and the server is reaped, which frees its
    /// number, only when the guard has gone.
    private static func end(_ run: Run?, _ signal: Int32) {
        guard let run else { return }
        _ = Glibc.kill(run.pid, signal)
        _ = Glibc.kill(run.pid, SIGCONT)
        var state = siginfo_t()
        while waitid(P_PID, id_t(run.pid), &state, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        _ = write(run.lifeline, "\n", 1)
        close(run.lifeline)
        reap(run.guardian)
        reap(run.pid)
    }

    private static func reap(_ pid: pid_t) {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    }

    /// Not Foundation's `Process`: it waits until every descriptor inherited by a child is closed.
    private static func spawn(_ words: [String], input: Int32?) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        // The test's own output may be a pipe whose reader waits for its end.
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        // A server would hold other tests' sockets open, and these tests would wait for their end in vain.
        cd_close_from(&actions, 3)
        // Threads of a pool block signals, their children inherit that, and SIGTERM would go unheard.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var pointers = words.map { strdup($0) }
        defer { for pointer in pointers { free(pointer) } }
        pointers.append(nil)
        var child = pid_t()
        let code = posix_spawn(&child, words[0], &actions, &attributes, pointers, environ)
        guard code == 0 else { throw Failure(description: "\(words[0]): \(String(cString: strerror(code)))") }
        return child
    }

    /// Waits until it answers by the socket in its folder, which it makes after it has its ports: at a port, another
    /// program might answer.
    private static func wait(_ pid: pid_t?, _ folder: String) throws {
        guard let pid else { throw Failure(description: "redis-server was not started") }
        let end = ContinuousClock.now + .seconds(60)
        while !isAnswering("\(folder)/socket") {
            var state = siginfo_t()
            let isGone = waitid(P_PID, id_t(pid), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_signo == SIGCHLD
            guard !isGone, ContinuousClock.now < end else {
                let log = (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "no log"
                throw Failure(description: "redis-server \(isGone ? "has ended" : "is silent"): \(log.suffix(600))")
            }
            usleep(5_000)
        }
    }

    /// Whether PING is answered; that a password is missing is an answer, too.
    private static func isAnswering(_ path: String) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isConnected, write(descriptor, "PING\r\n", 6) == 6 else { return false }
        var answer = [UInt8](repeating: 0, count: 7)
        guard read(descriptor, &answer, answer.count) == answer.count else { return false }
        return ["+PONG\r\n", "-NOAUTH"].contains(String(decoding: answer, as: UTF8.self))
    }
}
