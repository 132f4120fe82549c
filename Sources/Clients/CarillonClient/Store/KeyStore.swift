import Foundation

/// Where the keys of an encrypted store are kept, by number: 32 bytes each. Numbers begin at 1.
public protocol KeyStore: Sendable {
    /// All keys; none before the first `save`.
    func keys() throws -> [UInt8: Data]
    /// Keeps these, and no others.
    func save(_ keys: [UInt8: Data]) throws
}

/// Keys in a file that only its owner may read, for systems without a keychain.
public struct FileKeyStore: KeyStore {
    private let file: URL

    /// The file.
    public init(_ file: URL) {
        self.file = file
    }

    /// All keys.
    public func keys() throws -> [UInt8: Data] {
        guard FileManager.default.fileExists(atPath: file.path) else { return [:] }
        return try KeyText.keys(String(contentsOf: file, encoding: .utf8))
    }

    /// Writes a new file with its rights, and puts it in place of the old one: a crash leaves the one or the other.
    public func save(_ keys: [UInt8: Data]) throws {
        let new = file.appendingPathExtension("new")
        try? FileManager.default.removeItem(at: new)
        guard
            FileManager.default.createFile(
                atPath: new.path, contents: Data(KeyText.text(keys).utf8), attributes: [.posixPermissions: 0o600])
        else { throw CarillonError.storage("the key file cannot be written") }
        guard rename(new.path, file.path) == 0 else { throw CarillonError.storage("the key file cannot be written") }
    }
}

/// Keys as they are kept: a line for each, with its number and its bytes in Base64.
enum KeyText {
    static func keys(_ text: String) throws -> [UInt8: Data] {
        var keys: [UInt8: Data] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard parts.count == 2, let number = UInt8(parts[0]), let key = Data(base64Encoded: String(parts[1])) else {
                throw CarillonError.tampered
            }
            keys[number] = key
        }
        return keys
    }

    static func text(_ keys: [UInt8: Data]) -> String {
        keys.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.base64EncodedString())\n" }.joined()
    }
}
