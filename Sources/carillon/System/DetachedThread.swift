import Glibc

/// A thread that nobody waits for, with the signal mask of the one that starts it.
enum DetachedThread {
    /// Runs `body` on a thread of its own. The process ends where none can be made: nothing would come of the command.
    static func start(_ body: @escaping @Sendable () -> Void) {
        let start = Unmanaged.passRetained(ThreadBody(body))
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, runDetachedThread, start.toOpaque())
        precondition(code == 0, "pthread_create: \(String(cString: strerror(code)))")
        pthread_detach(thread)
    }
}

private final class ThreadBody: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) {
        self.body = body
    }
}

/// A plain function: a closure at top level would be inferred to belong to the main actor.
private nonisolated func runDetachedThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().body()
    return nil
}
