#if canImport(Security)
import Foundation
import Security

/// Keys in the keychain of Apple's systems, readable once the device was unlocked after its start: widgets and background
/// work need them. They are in encrypted backups only, as the store that they open may be.
public struct KeychainKeyStore: KeyStore {
    private let service: String
    private let group: String?

    /// Keys in one item of the keychain.
    ///
    /// - Parameters:
    ///   - service: the item's name, such as the app's identifier. One for each user.
    ///   - group: the access group, where a widget is to read the keys too.
    public init(service: String, group: String? = nil) {
        self.service = service
        self.group = group
    }

    private var attributes: [String: Any] {
        var attributes: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
            kSecAttrAccount as String: "carillon",
        ]
        if let group { attributes[kSecAttrAccessGroup as String] = group }
        return attributes
    }

    /// All keys.
    public func keys() throws -> [UInt8: Data] {
        var found: CFTypeRef?
        let query = attributes.merging([kSecReturnData as String: true]) { _, new in new }
        switch SecItemCopyMatching(NSDictionary(dictionary: query) as CFDictionary, &found) {
        case errSecSuccess:
            guard let data = found as? Data else { throw CarillonError.tampered }
            return try KeyText.keys(String(decoding: data, as: UTF8.self))
        case errSecItemNotFound: return [:]
        case let status: throw CarillonError.storage("the keychain says \(status)")
        }
    }

    /// Keeps these, in one step.
    public func save(_ keys: [UInt8: Data]) throws {
        let value: [String: Any] = [
            kSecValueData as String: Data(KeyText.text(keys).utf8),
            kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlock,
        ]
        let query = NSDictionary(dictionary: attributes) as CFDictionary
        var status = SecItemUpdate(query, NSDictionary(dictionary: value) as CFDictionary)
        if status == errSecItemNotFound {
            let item = attributes.merging(value) { _, new in new }
            status = SecItemAdd(NSDictionary(dictionary: item) as CFDictionary, nil)
        }
        guard status == errSecSuccess else { throw CarillonError.storage("the keychain says \(status)") }
    }
}
#endif
