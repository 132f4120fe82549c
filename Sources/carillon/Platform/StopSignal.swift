import FoundationEssentials
import Glibc
import Reactor

/// SIGINT and SIGTERM end the command; SIGHUP makes it re-read certificates and apps.
enum StopSignal {
    /// Blocks the signals in this thread and its later threads, and starts a thread that waits for them.
    ///
    /// Call it first in `main`, before other threads exist. The first signal sets the latch; the second kills at once.
    ///
    /// - Parameter hangUp: the action for SIGHUP, run on that thread; nil: SIGHUP ends the process as usual. While it has no
    ///   action, SIGHUP means that the terminal has closed, and ends the hub like the other signals.
    static func install(hangUp: HangUp? = nil) throws(Failure) -> Latch {
        let stop = Latch()
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        if hangUp != nil { sigaddset(&signals, SIGHUP) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let waited = signals
        let thread = try? SystemThread(name: "signals") {
            var waited = waited
            while true {
                var number: Int32 = 0
                guard sigwait(&waited, &number) == 0 else { continue }
                if number == SIGHUP, hangUp?.received() == true { continue }
                if stop.isSet { _exit(128 + number) }
                stop.set()
            }
        }
        guard let thread else { throw Failure("no thread can be started that waits for signals") }
        thread.detach()
        return stop
    }

    /// Makes a write to a closed pipe fail in place of ending the process: a hub outlives readers of its output. Not for
    /// `tail`, which ends with its reader, as programs in a pipe do.
    static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}

/// The action for SIGHUP, once there is one.
final class HangUp: Sendable {
    private let action = Locked<(@Sendable () -> Void)?>(nil)

    func does(_ action: @escaping @Sendable () -> Void) {
        self.action.withLock { $0 = action }
    }

    /// SIGHUP has come. False when there is no action.
    func received() -> Bool {
        guard let action = action.withLock({ $0 }) else { return false }
        action()
        return true
    }
}
