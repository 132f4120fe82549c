import Foundation
import Glibc

/// SIGINT and SIGTERM, which ask the command to end.
enum StopSignal {
    /// Blocks the two signals in this thread and those it starts, and has a thread of its own wait for them.
    ///
    /// To be called first thing in `main`, before any other thread is there. The first signal sets the latch; the
    /// second ends the process at once, for someone who cannot wait.
    static func install() -> Latch {
        let stop = Latch()
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let waited = signals
        Thread.detachNewThread {
            var waited = waited
            while true {
                var number: Int32 = 0
                guard sigwait(&waited, &number) == 0 else { continue }
                if stop.isSet { _exit(128 + number) }
                stop.set()
            }
        }
        return stop
    }

    /// Lets a write to a reader that has gone fail, instead of ending the process: a hub outlives whoever reads its
    /// output. Not for `tail`, which ends with its reader as programs in a pipe do.
    static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}
