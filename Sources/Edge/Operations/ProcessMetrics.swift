import Clock
import Glibc
import Metrics
import Reactor

/// The process metrics of Prometheus' own client libraries, under their names (`process_…`), read from `/proc` (proc(5));
/// and the time since each of the hub's threads last ticked.
package struct ProcessMetrics: MetricSource {
    private let version: String
    private let startedAt: Double
    private let threads: @Sendable () -> [(name: String, handle: LoopHandle)]

    /// - Parameters:
    ///   - version: the program's.
    ///   - threads: the hub's loops by name.
    package init(version: String, threads: @escaping @Sendable () -> [(name: String, handle: LoopHandle)]) {
        self.version = version
        self.threads = threads
        startedAt = Double(UnixTime.read().microseconds / 1_000_000)
    }

    /// Reads `/proc`, and writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.gauge("build_info", "Always 1; the version is a label.", [([.init("version", version)], 1)])
        let now = Instant.read()
        exposition.gauge(
            "loop_tick_age_seconds", "Time since the thread last turned; a healthy one turns twice a second.",
            threads().map { ([.init("loop", $0.name)], $0.handle.sinceTick(at: now) / .seconds(1)) })
        exposition.gauge(
            "process_start_time_seconds", "When the process started, in seconds since 1970.", startedAt, plain: true)
        var usage = rusage()
        if getrusage(Int32(RUSAGE_SELF.rawValue), &usage) == 0 {
            let seconds = Self.seconds(usage.ru_utime) + Self.seconds(usage.ru_stime)
            exposition.counter("process_cpu_seconds_total", "Processor time used.", seconds, plain: true)
        }
        if let pages = Self.residentPages() {
            exposition.gauge(
                "process_resident_memory_bytes", "Memory in use.", Double(pages) * Double(sysconf(Int32(_SC_PAGESIZE))),
                plain: true)
        }
        if let count = Self.openDescriptors() {
            exposition.gauge("process_open_fds", "Descriptors in use.", Double(count), plain: true)
        }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            exposition.gauge("process_max_fds", "Descriptors that may be in use.", Double(limit.rlim_cur), plain: true)
        }
    }

    private static func seconds(_ time: timeval) -> Double {
        Double(time.tv_sec) + Double(time.tv_usec) / 1e6
    }

    /// The second number of `/proc/self/statm`.
    private static func residentPages() -> Int? {
        let descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return withUnsafeTemporaryAllocation(byteCount: 128, alignment: 1) { room in
            let count = Glibc.read(descriptor, room.baseAddress, room.count)
            guard count > 0 else { return nil }
            let words = room[0..<count].split(separator: UInt8(ascii: " "))
            return words.count > 1 ? Int(String(decoding: words[1], as: UTF8.self)) : nil
        }
    }

    private static func openDescriptors() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        // Less ".", ".." and the descriptor of the listing itself.
        return max(0, count - 3)
    }
}
