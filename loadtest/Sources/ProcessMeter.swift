import Foundation
import Glibc

/// The resources used by other processes together, from /proc.
struct ProcessMeter {
    private let folders: [String]

    /// - Throws: `LoadFailure` if a process does not exist or its memory may not be read.
    init(pid: Int32) throws(LoadFailure) { try self.init(pids: [pid]) }

    init(pids: [Int32]) throws(LoadFailure) {
        folders = pids.map { "/proc/\($0)" }
        guard residentBytes() != nil else { throw LoadFailure("no process \(pids), or it belongs to another user") }
    }

    /// The sum over all processes; nil if one has none.
    private func sum<Number: AdditiveArithmetic>(_ of: (String) -> Number?) -> Number? {
        var sum = Number.zero
        for folder in folders {
            guard let one = of(folder) else { return nil }
            sum += one
        }
        return sum
    }

    /// CPU seconds of all live threads, user and kernel (`schedstat`, nanoseconds), or nil.
    func cpuSeconds() -> Double? { sum { Self.cpuSeconds($0) } }

    private static func cpuSeconds(_ folder: String) -> Double? {
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/task") else { return nil }
        var nanoseconds: UInt64 = 0
        for thread in threads {
            guard let text = contents("\(folder)/task/\(thread)/schedstat") else { continue }
            nanoseconds += text.split(separator: " ").first.flatMap { UInt64($0) } ?? 0
        }
        return Double(nanoseconds) / 1e9
    }

    /// Resident memory (`Rss` of smaps_rollup) in bytes, or nil.
    func residentBytes() -> Int? { sum { Self.residentBytes($0) } }

    private static func residentBytes(_ folder: String) -> Int? {
        guard let text = contents("\(folder)/smaps_rollup") else { return nil }
        for line in text.split(separator: "\n") where line.hasPrefix("Rss:") {
            return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 }
        }
        return nil
    }

    /// The most resident memory that it ever had (`VmHWM` of status) in bytes, or nil.
    func peakBytes() -> Int? { sum { Self.peakBytes($0) } }

    private static func peakBytes(_ folder: String) -> Int? {
        guard let text = contents("\(folder)/status") else { return nil }
        for line in text.split(separator: "\n") where line.hasPrefix("VmHWM:") {
            return line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 }
        }
        return nil
    }

    /// Connections that the kernel of this machine did not queue, since a listener's queue was full (`ListenOverflows`).
    static func overflows() -> Int {
        let lines = (contents("/proc/net/netstat") ?? "").split(separator: "\n").filter { $0.hasPrefix("TcpExt:") }
            .map { $0.split(separator: " ") }
        guard lines.count == 2, let index = lines[0].firstIndex(of: "ListenOverflows"), index < lines[1].count else {
            return 0
        }
        return Int(lines[1][index]) ?? 0
    }

    /// Waits at most ten seconds until it is almost idle, for example after many connections have ended.
    func waitUntilIdle() {
        var last = cpuSeconds() ?? 0
        for _ in 0..<100 {
            usleep(100_000)
            guard let now = cpuSeconds(), now - last > Self.idleSeconds else { return }
            last = now
        }
    }

    /// CPU seconds per 100 ms of a server without connections, whose timers still tick.
    private static let idleSeconds = 0.005

    static func ownCPUSeconds() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return [usage.ru_utime, usage.ru_stime].map { Double($0.tv_sec) + Double($0.tv_usec) / 1e6 }.reduce(0, +)
    }

    // Uses FileHandle, since files of /proc have no size.
    private static func contents(_ path: String) -> String? {
        guard let handle = FileHandle(forReadingAtPath: path), let data = try? handle.readToEnd() else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}
