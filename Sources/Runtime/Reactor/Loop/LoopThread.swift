import Glibc

/// A thread that runs one event loop. Everything that the loop owns is built on the thread.
public final class LoopThread: Sendable {
    /// The handle of the thread's loop.
    public let handle: LoopHandle
    private let thread: SystemThread

    /// Starts a thread called `name` (15 bytes), builds its loop, calls `body` to fill it, and runs it until stopped.
    ///
    /// `body` gets the loop, whose handle is `handle`. Its result is retained as long as the loop runs. With a handle made
    /// beforehand, mailboxes of several loops can exist before any of them runs.
    public init(
        name: String, handle: LoopHandle? = nil, body: @escaping @Sendable (EventLoop) -> AnyObject?
    ) throws(ReactorError) {
        // Made here, so that the caller gets its error; handed over whole, and not touched here again.
        let loop = if let handle { try EventLoop(handle: handle) } else { try EventLoop() }
        self.handle = loop.handle
        thread = try SystemThread(name: name) {
            let owned = body(loop)
            withExtendedLifetime(owned) { loop.run() }
        }
    }

    /// Starts the thread, and returns when `fill` has returned. Throws its error; the thread has ended then.
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

    /// Waits until the thread has ended. Call it once.
    public func join() {
        thread.join()
    }
}

/// Whether a loop was filled; its thread tells once.
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
