import Crypto
import Foundation

/// Encrypts what is kept of a person, or leaves it as it is.
///
/// AES-256-GCM: a nonce for each value, and its context (what it is, and of which row) as authenticated data. So a value
/// that was changed, or moved to another row, is found.
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
    func seal(_ text: String, context: String) throws -> Data {
        guard let current, let key = keys[current] else { return Data([0]) + Data(text.utf8) }
        let box = try AES.GCM.seal(Data(text.utf8), using: key, authenticating: Data(context.utf8))
        guard let combined = box.combined else { throw CarillonError.tampered }
        return Data([current]) + combined
    }

    /// A stored text. Where values are encrypted, one that is not was not written here.
    func open(_ data: Data, context: String) throws -> String {
        guard let number = data.first else { throw CarillonError.tampered }
        let rest = data.dropFirst()
        guard number != 0 else {
            guard current == nil else { throw CarillonError.tampered }
            return String(decoding: rest, as: UTF8.self)
        }
        guard let key = keys[number], let box = try? AES.GCM.SealedBox(combined: Data(rest)),
            let text = try? AES.GCM.open(box, using: key, authenticating: Data(context.utf8))
        else { throw CarillonError.tampered }
        return String(decoding: text, as: UTF8.self)
    }
}
