import Glibc

/// Reads and writes whole texts.
enum Descriptor {
    /// Writes everything. False when the reader has gone or the disk is full.
    @discardableResult static func write(_ text: String, to descriptor: Int32) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
                if count < 0, errno != EINTR { return false }
                rest = UnsafeRawBufferPointer(rebasing: rest[max(0, count)...])
            }
            return true
        }
    }

    /// Replaces the file's content; only its owner may read it. Atomic: readers see the old file or the new one.
    static func replace(_ file: String, with text: String) throws(Failure) {
        let unfinished = file + ".unfinished"
        unlink(unfinished)
        let descriptor = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        guard descriptor >= 0, write(text, to: descriptor), rename(unfinished, file) == 0 else {
            throw Failure("\(file): cannot be written: \(String(cString: strerror(errno)))")
        }
    }

    /// What a file has that only this user can have written and can read; nil where there is none.
    static func own(_ file: String) throws(Failure) -> String? {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            let reason = errno == ELOOP ? "it is a link" : String(cString: strerror(errno))
            throw Failure("\(file) cannot be trusted: \(reason); delete it, and start again")
        }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, facts.st_nlink == 1,
            facts.st_uid == geteuid(), facts.st_mode & 0o077 == 0
        else {
            throw Failure(
                "\(file) cannot be trusted: it must be a file of this user that no other may read or write (chmod 600); "
                    + "if others could, delete it, and start again")
        }
        return read(descriptor, atMost: 4_096)
    }

    static func read(_ descriptor: Int32, atMost bytesMax: Int) -> String {
        let bytes = [UInt8](unsafeUninitializedCapacity: bytesMax) { room, filled in
            while filled < bytesMax {
                let count = Glibc.read(
                    descriptor, UnsafeMutableBufferPointer(rebasing: room[filled...]).baseAddress, bytesMax - filled)
                if count == 0 || count < 0 && errno != EINTR { return }
                filled += max(0, count)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
