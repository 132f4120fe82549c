import Glibc

/// An exclusive lock on a folder. It lasts until this process ends, in any way.
final class FolderLock {
    private let descriptor: Int32

    /// - Parameter path: the lock file, created if missing; contains the owner's process id for people.
    /// - Throws: a failure that names the folder and the process that holds it.
    init(file path: String) throws(Failure) {
        let folder = path[..<(path.lastIndex(of: "/") ?? path.startIndex)]
        // `self.descriptor` is set last: `deinit` closes it only after a complete `init`.
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw Failure("\(path): cannot be opened: \(String(cString: strerror(errno)))")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            let holder = Self.text(of: descriptor)
            close(descriptor)
            guard reason == EWOULDBLOCK else {
                throw Failure("\(path): cannot be locked: \(String(cString: strerror(reason)))")
            }
            throw Failure(
                "\(folder) is in use by another `carillon dev`\(holder.isEmpty ? "" : " (process \(holder))"): "
                    + "stop it, or choose another folder with --dir")
        }
        let text = "\(getpid())\n"
        ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.utf8.count, 0)
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    private static func text(of descriptor: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return "" }
        return String(decoding: bytes[..<count], as: UTF8.self).trimmed
    }
}
