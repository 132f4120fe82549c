// swift-format-ignore-file: AlwaysUseLowerCamelCase

import Foundation
// On Apple's systems, Foundation has URLSession.
@_exported import FoundationNetworking

// What the Swift client uses of Apple's Security: declarations only, so that Tests/apple can check types on Linux.

public typealias CFTypeRef = AnyObject
public typealias CFString = String
public typealias CFData = Data
public typealias CFArray = NSArray
public typealias CFDictionary = NSDictionary
public typealias CFError = NSError
public typealias OSStatus = Int32

public final class SecTrust: Sendable {}
public final class SecCertificate: Sendable {}

public let errSecSuccess: OSStatus = 0
public let errSecItemNotFound: OSStatus = -25_300
public let errSecDuplicateItem: OSStatus = -25_299
public let kSecClass: CFString = "class"
public let kSecClassGenericPassword: CFString = "genp"
public let kSecAttrService: CFString = "svce"
public let kSecAttrAccount: CFString = "acct"
public let kSecAttrAccessGroup: CFString = "agrp"
public let kSecAttrAccessible: CFString = "pdmn"
public let kSecAttrAccessibleAfterFirstUnlock: CFString = "ck"
public let kSecReturnData: CFString = "r_Data"
public let kSecValueData: CFString = "v_Data"

public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    fatalError("a declaration")
}
public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    fatalError("a declaration")
}
public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    fatalError("a declaration")
}
public func SecTrustCopyCertificateChain(_ trust: SecTrust) -> CFArray? { fatalError("a declaration") }
public func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData { fatalError("a declaration") }

// What Foundation has on Apple's systems alone.
extension URLProtectionSpace {
    public var serverTrust: SecTrust? { fatalError("a declaration") }
}
extension URLCredential {
    public convenience init(trust: SecTrust) { fatalError("a declaration") }
}
