import Crypto
import Foundation

/// Encrypts what is kept of a person, or leaves it as it is.
///
/// AES-256-GCM: a nonce for each value, and the value's place as authenticated data. So a value that was changed, or moved
/// to another row, is found.
struct Vault: Sendable {
    private let keys: [UInt8: SymmetricKey]
    /// The key that new values get; nil: values are not encrypted.
    let current: UInt8?

    static let open = Vault(keys: [:], current: nil)

    init(keys: [UInt8: SymmetricKey], current: UInt8?) {
        self.keys = keys
        self.current = current
    }

    /// The keys of a key store, the first of which is made where there is none.
    init(_ store: any KeyStore) throws {
        var found = try store.keys()
        if found.isEmpty {
            let key = SymmetricKey(size: .bits256)
            found[1] = key.withUnsafeBytes { Data($0) }
            try store.save(found)
        }
        guard found.values.allSatisfy({ $0.count == 32 }), let newest = found.keys.max() else {
            throw CarillonError.tampered
        }
        self.init(keys: found.mapValues { SymmetricKey(data: $0) }, current: newest)
    }

    /// Adds a key to a key store, for new values. Old ones are read with theirs until they are written again.
    static func rotate(_ store: any KeyStore) throws -> Vault {
        var found = try store.keys()
        guard let newest = found.keys.max(), newest < .max else { return try Vault(store) }
        found[newest + 1] = SymmetricKey(size: .bits256).withUnsafeBytes { Data($0) }
        try store.save(found)
        return try Vault(store)
    }

    /// A text as it is stored: the number of its key, then the sealed box; or the text after a zero.
    func seal(_ text: String, place: String) throws -> Data {
        guard let current, let key = keys[current] else { return Data([0]) + Data(text.utf8) }
        let box = try AES.GCM.seal(Data(text.utf8), using: key, authenticating: Data(place.utf8))
        guard let combined = box.combined else { throw CarillonError.tampered }
        return Data([current]) + combined
    }

    /// A stored text. Where values are encrypted, one that is not was not written here.
    func open(_ data: Data, place: String) throws -> String {
        guard let number = data.first else { throw CarillonError.tampered }
        let rest = Data(data.dropFirst())
        guard number != 0 else {
            guard current == nil else { throw CarillonError.tampered }
            return String(decoding: rest, as: UTF8.self)
        }
        guard let key = keys[number], let box = try? AES.GCM.SealedBox(combined: rest),
            let text = try? AES.GCM.open(box, using: key, authenticating: Data(place.utf8))
        else { throw CarillonError.tampered }
        return String(decoding: text, as: UTF8.self)
    }
}

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

    /// A line for each key: its number and its bytes in Base64.
    public func keys() throws -> [UInt8: Data] {
        guard FileManager.default.fileExists(atPath: file.path) else { return [:] }
        var keys: [UInt8: Data] = [:]
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard parts.count == 2, let number = UInt8(parts[0]), let key = Data(base64Encoded: String(parts[1])) else {
                throw CarillonError.tampered
            }
            keys[number] = key
        }
        return keys
    }

    /// Writes a new file with its rights, and puts it in place of the old one: a crash leaves the one or the other.
    public func save(_ keys: [UInt8: Data]) throws {
        let text = keys.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.base64EncodedString())\n" }.joined()
        let new = file.appendingPathExtension("new")
        try? FileManager.default.removeItem(at: new)
        guard
            FileManager.default.createFile(
                atPath: new.path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { throw CarillonError.storage("the key file cannot be written") }
        guard rename(new.path, file.path) == 0 else { throw CarillonError.storage("the key file cannot be written") }
    }
}
