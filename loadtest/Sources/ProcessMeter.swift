import Foundation
import Glibc

/// What another process has used so far, from /proc.
struct ProcessMeter {
    private let folder: String

    /// - Throws: `LoadFailure` where there is no such process, or its memory may not be read.
    init(pid: Int32) throws(LoadFailure) {
        folder = "/proc/\(pid)"
        guard residentBytes() != nil else { throw LoadFailure("no process \(pid), or it belongs to another user") }
    }

    /// Seconds on a CPU of all threads that are alive, user and kernel (`schedstat`, nanoseconds), or nil.
    func cpuSeconds() -> Double? {
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/task") else { return nil }
        var nanoseconds: UInt64 = 0
        for thread in threads {
            guard let text = Self.contents("\(folder)/task/\(thread)/schedstat") else { continue }
            nanoseconds += text.split(separator: " ").first.flatMap { UInt64($0) } ?? 0
        }
        return Double(nanoseconds) / 1e9
    }

    /// Resident memory (`Rss` of smaps_rollup) in bytes, or nil.
    func residentBytes() -> Int? {
        guard let text = Self.contents("\(folder)/smaps_rollup") else { return nil }
        for line in text.split(separator: "\n") where line.hasPrefix("Rss:") {
            return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 }
        }
        return nil
    }

    /// Waits until it does next to nothing, as after many connections have ended; ten seconds at most.
    func waitUntilIdle() {
        var last = cpuSeconds() ?? 0
        for _ in 0..<100 {
            usleep(100_000)
            guard let now = cpuSeconds(), now - last > Self.idleSeconds else { return }
            last = now
        }
    }

    /// Of a tenth of a second, what a server without connections takes: its clocks tick.
    private static let idleSeconds = 0.005

    /// CPU seconds of this process, user and kernel.
    static func ownCPUSeconds() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return [usage.ru_utime, usage.ru_stime].map { Double($0.tv_sec) + Double($0.tv_usec) / 1e6 }.reduce(0, +)
    }

    // FileHandle, since files of /proc have no size.
    private static func contents(_ path: String) -> String? {
        guard let handle = FileHandle(forReadingAtPath: path), let data = try? handle.readToEnd() else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}
