import Foundation
import Glibc
import Synchronization

/// The wish to end, made known by SIGINT or SIGTERM.
///
/// Installed once, first thing in `main`, so that every thread started later has both signals blocked and a thread of
/// its own waits for them. The first signal makes `descriptor` readable for good; the second ends the process at once,
/// for someone who cannot wait.
final class StopSignal: Sendable {
    /// Readable from the moment that stopping was asked for; never to be read from.
    let descriptor: Int32
    private let writeEnd: Int32
    private let requested = Atomic<Bool>(false)

    /// A stop that only `request()` brings about.
    init() {
        var ends: [Int32] = [-1, -1]
        // Failing here means no descriptors at all at the start of the process.
        precondition(pipe2(&ends, O_CLOEXEC) == 0, "no descriptor left for the stop signal")
        descriptor = ends[0]
        writeEnd = ends[1]
    }

    /// Blocks the two signals in this thread and those it starts, and waits for them on a thread of its own.
    static func install() -> StopSignal {
        let stop = StopSignal()
        let signals = blockedSignals()
        Thread.detachNewThread {
            var signals = signals
            while true {
                var number: Int32 = 0
                guard sigwait(&signals, &number) == 0 else { continue }
                if stop.isRequested { _exit(128 + number) }
                stop.request()
            }
        }
        return stop
    }

    /// Whether stopping was asked for.
    var isRequested: Bool { requested.load(ordering: .acquiring) }

    /// Asks for the stop, as a signal does.
    func request() {
        guard !requested.exchange(true, ordering: .acquiringAndReleasing) else { return }
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    /// Blocks the calling thread until the stop is asked for, or for `timeout` at most.
    ///
    /// - Returns: whether it was asked for.
    @discardableResult func wait(timeout: Duration? = nil) -> Bool {
        let milliseconds = timeout.map { Int32(clamping: Int64($0 / .milliseconds(1))) } ?? -1
        var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            let count = Glibc.poll(&poll, 1, milliseconds)
            if count == 0 || isRequested { return isRequested }
            if count < 0, errno != EINTR { return isRequested }
        }
    }

    private static func blockedSignals() -> sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        return signals
    }
}
