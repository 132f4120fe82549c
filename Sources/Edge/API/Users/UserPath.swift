import Bytes
import HTTP

/// `/users/{userId}/…`: whose a resource is, and which.
struct UserPath {
    let user: String
    /// What follows the user, from its slash, not decoded.
    let rest: String

    /// Nil for other paths, and where the user is no text.
    init?(_ path: String) {
        var path = path
        let parts: (String, String)? = path.withUTF8 { bytes in
            let path = UnsafeRawBufferPointer(bytes)
            guard path.hasPrefix(Self.prefix), let slash = path.firstIndex(of: UInt8(ascii: "/"), from: 7),
                let user = Percent.decodeString(path.part(7..<slash)), !user.isEmpty
            else { return nil }
            return (user, path.part(slash..<path.count).string)
        }
        guard let parts else { return nil }
        (user, rest) = parts
    }

    private static let prefix: StaticString = "/users/"
}
