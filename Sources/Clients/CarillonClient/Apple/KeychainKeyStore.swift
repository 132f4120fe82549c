#if canImport(Security)
import Foundation
import Security

/// Keys in the keychain of Apple's systems, readable once the device was unlocked after its start: widgets and background
/// work need them. They are in encrypted backups only, as the store that they open may be.
public struct KeychainKeyStore: KeyStore {
    private let service: String
    private let group: String?

    /// Keys in items of the keychain, one for each.
    ///
    /// - Parameters:
    ///   - service: the items' name, such as the app's identifier. One for each user.
    ///   - group: the access group, where a widget is to read the keys too.
    public init(service: String, group: String? = nil) {
        self.service = service
        self.group = group
    }

    private func attributes(_ account: String) -> [String: Any] {
        var attributes: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
            kSecAttrAccount as String: account,
        ]
        if let group { attributes[kSecAttrAccessGroup as String] = group }
        return attributes
    }

    private func account(_ number: UInt32) -> String { "carillon-\(number)" }

    private func data(_ account: String) throws -> Data? {
        var found: CFTypeRef?
        let query = attributes(account).merging([kSecReturnData as String: true]) { _, new in new }
        switch SecItemCopyMatching(NSDictionary(dictionary: query) as CFDictionary, &found) {
        case errSecSuccess:
            guard let data = found as? Data else { throw CarillonError.tampered }
            return data
        case errSecItemNotFound: return nil
        case let status: throw CarillonError.storage("the keychain says \(status)")
        }
    }

    /// All keys. Numbers have no gaps.
    public func keys() throws -> [UInt32: Data] {
        // An older version kept all in one item.
        var keys = try data("carillon").map { try KeyText.keys(String(decoding: $0, as: UTF8.self)) } ?? [:]
        var next = (keys.keys.max() ?? 0) + 1
        while let key = try data(account(next)) {
            keys[next] = key
            next += 1
        }
        return keys
    }

    /// Adds an item, which the keychain refuses where there is one of that number.
    public func add(_ key: Data, number: UInt32) throws -> [UInt32: Data] {
        let value: [String: Any] = [
            kSecValueData as String: key,
            kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlock,
        ]
        let item = attributes(account(number)).merging(value) { _, new in new }
        let status = SecItemAdd(NSDictionary(dictionary: item) as CFDictionary, nil)
        guard status == errSecSuccess || status == errSecDuplicateItem else {
            throw CarillonError.storage("the keychain says \(status)")
        }
        return try keys()
    }
}
#endif
