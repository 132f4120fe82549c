import Foundation

/// A lock of a file, which the system releases when its process dies.
final class LeaseLock {
    private let path: String
    private var descriptor: Int32 = -1

    init(_ path: String) {
        self.path = path
    }

    deinit { release() }

    /// Takes it if nobody has it. Returns whether this process has it now.
    func take() -> Bool {
        guard descriptor < 0 else { return true }
        let opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard opened >= 0 else { return false }
        guard flock(opened, LOCK_EX | LOCK_NB) == 0 else {
            _ = close(opened)
            return false
        }
        descriptor = opened
        return true
    }

    func release() {
        guard descriptor >= 0 else { return }
        _ = close(descriptor)
        descriptor = -1
    }
}
