import Foundation

/// A lock of a file, which the system releases when its process dies.
final class FileLock {
    private let path: String
    private var descriptor: Int32 = -1

    init(_ path: String) {
        self.path = path
    }

    deinit { release() }

    /// Takes it if nobody has it. Returns whether this process has it now.
    func take() -> Bool { lock(LOCK_EX | LOCK_NB) }

    /// Takes it as soon as nobody has it. Returns false where the file cannot be opened.
    func wait() -> Bool { lock(LOCK_EX) }

    private func lock(_ operation: Int32) -> Bool {
        guard descriptor < 0 else { return true }
        let opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard opened >= 0 else { return false }
        while flock(opened, operation) != 0 {
            guard errno == EINTR else {
                _ = close(opened)
                return false
            }
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
