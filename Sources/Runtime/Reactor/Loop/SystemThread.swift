import CLinux
import Glibc

/// A thread that handles no signals: the main thread does.
package struct SystemThread: Sendable {
    private let thread: pthread_t

    /// Starts a thread called `name` (15 bytes) that runs `body`. From then on no other thread may touch its captures.
    package init(name: String, _ body: @escaping () -> Void) throws(ReactorError) {
        let start = Unmanaged.passRetained(ThreadStart(name, body))
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, runThread, start.toOpaque())
        guard code == 0 else {
            start.release()
            throw ReactorError("pthread_create", code)
        }
        self.thread = thread
    }

    /// Waits until it has ended. Call this or `detach`, once.
    package func join() { pthread_join(thread, nil) }

    /// Nobody waits for its end.
    package func detach() { pthread_detach(thread) }
}

/// What a new thread needs to begin: its name and its work.
private final class ThreadStart {
    let name: String
    let body: () -> Void

    init(_ name: String, _ body: @escaping () -> Void) {
        (self.name, self.body) = (name, body)
    }
}

/// A plain function: a closure at top level would be inferred to belong to the main actor.
private nonisolated func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    let start = Unmanaged<ThreadStart>.fromOpaque(argument).takeRetainedValue()
    _ = start.name.withCString(cl_set_thread_name)
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
    start.body()
    return nil
}
