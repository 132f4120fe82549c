import Foundation

/// Where the keys of an encrypted store are kept, by number: 32 bytes each. Numbers begin at 1.
public protocol KeyStore: Sendable {
    /// All keys; none before the first `add`.
    func keys() throws -> [UInt32: Data]
    /// Keeps a key for good, unless there is one of that number, and returns all that are there then. Of several processes
    /// that add the same number at once, one wins, and all return its key.
    func add(_ key: Data, number: UInt32) throws -> [UInt32: Data]
}

/// Keys in a file that only its owner may read, for systems without a keychain.
public struct FileKeyStore: KeyStore {
    private let file: URL

    /// The file.
    public init(_ file: URL) {
        self.file = file
    }

    /// All keys.
    public func keys() throws -> [UInt32: Data] {
        guard FileManager.default.fileExists(atPath: file.path) else { return [:] }
        return try KeyText.keys(String(contentsOf: file, encoding: .utf8))
    }

    /// Writes a new file with its rights, and puts it in place of the old one: a crash leaves the one or the other.
    ///
    /// Worst interleaving: another process adds a key between the look and the new file, which then lacks it; all that was
    /// encrypted with it is lost. So look and file are under a lock, which the system releases when its process dies.
    public func add(_ key: Data, number: UInt32) throws -> [UInt32: Data] {
        let lock = FileLock(file.path + ".lock")
        guard lock.wait() else { throw CarillonError.storage("the key file cannot be locked") }
        defer { lock.release() }
        var found = try keys()
        guard found[number] == nil else { return found }
        found[number] = key
        guard write(Data(KeyText.text(found).utf8)) else {
            throw CarillonError.storage("the key file cannot be written")
        }
        return found
    }

    private func write(_ text: Data) -> Bool {
        let new = file.path + ".new"
        unlink(new)
        let opened = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard opened >= 0 else { return false }
        defer { close(opened) }
        let isWritten = text.withUnsafeBytes { Foundation.write(opened, $0.baseAddress, $0.count) == $0.count }
        // Values are encrypted with the key from now on: it must not go with the power.
        guard isWritten, fsync(opened) == 0, rename(new, file.path) == 0 else { return false }
        let folder = open(file.deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { return false }
        defer { close(folder) }
        return fsync(folder) == 0
    }
}

/// Keys as they are kept: a line for each, with its number and its bytes in Base64.
enum KeyText {
    static func keys(_ text: String) throws -> [UInt32: Data] {
        var keys: [UInt32: Data] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard parts.count == 2, let number = UInt32(parts[0]), let key = Data(base64Encoded: String(parts[1]))
            else {
                throw CarillonError.tampered
            }
            keys[number] = key
        }
        return keys
    }

    static func text(_ keys: [UInt32: Data]) -> String {
        keys.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.base64EncodedString())\n" }.joined()
    }
}
