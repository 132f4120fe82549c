import FoundationEssentials
import Glibc
import Reactor

/// SIGINT and SIGTERM, which ask the command to end, and SIGHUP, which asks it to read certificates and apps anew.
enum StopSignal {
    /// Blocks the signals in this thread and those it starts, and has a thread of its own wait for them.
    ///
    /// To be called first thing in `main`, before any other thread is there. The first signal sets the latch; the
    /// second ends the process at once, for someone who cannot wait.
    ///
    /// - Parameter hangUp: what SIGHUP does, on that thread; nil: it ends the process, as ever. Where it does nothing,
    ///   the terminal has closed, and SIGHUP is one more signal to end.
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

    /// Lets a write to a reader that has gone fail, instead of ending the process: a hub outlives whoever reads its
    /// output. Not for `tail`, which ends with its reader as programs in a pipe do.
    static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}

/// What SIGHUP does, once there is something to do.
final class HangUp: Sendable {
    private let action = Locked<(@Sendable () -> Void)?>(nil)

    /// From now on SIGHUP does this.
    func does(_ action: @escaping @Sendable () -> Void) {
        self.action.withLock { $0 = action }
    }

    /// The signal has come. False where there is nothing to do.
    func received() -> Bool {
        guard let action = action.withLock({ $0 }) else { return false }
        action()
        return true
    }
}
