import CLinux
import Glibc

/// A thread that runs one event loop. All that the loop owns is built inside its body, on the thread.
public final class LoopThread: Sendable {
    /// The handle of the thread's loop.
    public let handle: LoopHandle
    private let thread: pthread_t

    /// Starts a thread called `name` (15 bytes), builds its loop, calls `body` to fill it, and runs it until stopped.
    ///
    /// `body` gets the loop, whose handle is `handle`; what it returns is kept alive for as long as the loop runs.
    /// A handle made beforehand lets mailboxes of several loops be made before any of them runs.
    public init(
        name: String, handle: LoopHandle? = nil, body: @escaping @Sendable (EventLoop) -> AnyObject?
    ) throws(ReactorError) {
        // Made here, so that failing to make it is the caller's to know; handed over whole, and not touched here again.
        let loop = if let handle { try EventLoop(handle: handle) } else { try EventLoop() }
        self.handle = loop.handle
        let start = Unmanaged.passRetained(ThreadStart(name: name, loop: loop, body: body))
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, runLoopThread, start.toOpaque())
        guard code == 0 else {
            start.release()
            throw ReactorError("pthread_create", code)
        }
        self.thread = thread
    }

    /// The same, but returns when `fill` has, and throws what it throws: the thread has ended then.
    public convenience init(
        name: String, handle: LoopHandle? = nil,
        filling fill: @escaping @Sendable (EventLoop) throws(ReactorError) -> AnyObject?
    ) throws(ReactorError) {
        let filled = Filled()
        try self.init(name: name, handle: handle) { loop in
            do throws(ReactorError) {
                let owned = try fill(loop)
                filled.tell(nil)
                return owned
            } catch {
                loop.handle.stop()
                filled.tell(error)
                return nil
            }
        }
        guard let error = filled.wait() else { return }
        join()
        throw error
    }

    /// Stops the loop and waits until its thread has ended.
    public func stopAndJoin() {
        handle.stop()
        join()
    }

    /// Waits until the thread has ended. Once.
    public func join() {
        pthread_join(thread, nil)
    }
}

/// Whether a loop was filled, told once by its thread.
///
/// `@unchecked Sendable`: `error` is written before the semaphore is raised, and read after.
private final class Filled: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var error: ReactorError?

    init() {
        sem_init(semaphore, 0, 0)
    }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func tell(_ error: ReactorError?) {
        self.error = error
        sem_post(semaphore)
    }

    func wait() -> ReactorError? {
        while sem_wait(semaphore) != 0 {}
        return error
    }
}

private final class ThreadStart {
    let name: String
    let loop: EventLoop
    let body: @Sendable (EventLoop) -> AnyObject?

    init(name: String, loop: EventLoop, body: @escaping @Sendable (EventLoop) -> AnyObject?) {
        self.name = name
        self.loop = loop
        self.body = body
    }
}

/// A plain function: a closure at top level would be inferred to belong to the main actor.
private nonisolated func runLoopThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    let start = Unmanaged<ThreadStart>.fromOpaque(argument).takeRetainedValue()
    _ = start.name.withCString(cl_set_thread_name)
    // Signals are for the main thread.
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
    let owned = start.body(start.loop)
    withExtendedLifetime(owned) { start.loop.run() }
    return nil
}
