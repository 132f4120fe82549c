// Pusher: the values of Pusher Channels, protocol 7, and their JSON.
//
// Purpose: what a client says becomes a `ClientEvent`, what the hub says is written by `ServerEvent`; names, ids, codes
// and signatures have types that cannot be mixed up. Invariants: `data` is written as a string, except in
// `pusher:error`, where clients need an object; nothing of a peer's is echoed unescaped; a bad signature is told in
// constant time. Where the protocol page is silent, pusher-js 8.6.0 and pusher-websocket-swift decide. Depends on
// Bytes, JSON, Digests.

import Bytes

/// The name of a channel: 1–200 characters of `[-A-Za-z0-9_=@,.;]`, or `#server-to-user-<id>`.
///
/// Pusher documents 164; its server libraries allow 200.
package struct ChannelName: Hashable, Sendable {
    /// What a name's beginning says about its channel; the longest prefix wins, and its hyphen belongs to it:
    /// `cached-news` is public.
    package enum Kind: Sendable, CaseIterable {
        case `public`, `private`, presence, privateEncrypted
        case cache, privateCache, presenceCache, privateEncryptedCache
        case serverToUser

        /// What names of the kind begin with.
        package var prefix: StaticString {
            switch self {
            case .public: ""
            case .private: "private-"
            case .presence: "presence-"
            case .privateEncrypted: "private-encrypted-"
            case .cache: "cache-"
            case .privateCache: "private-cache-"
            case .presenceCache: "presence-cache-"
            case .privateEncryptedCache: "private-encrypted-cache-"
            case .serverToUser: "#server-to-user-"
            }
        }

        /// Whether a subscription needs a signature (or, for server-to-user, a signed-in user).
        package var needsAuthentication: Bool { self != .public && self != .cache }

        /// Whether members are known to each other.
        package var isPresence: Bool { self == .presence || self == .presenceCache }

        /// Whether the last event is kept for newcomers.
        package var isCache: Bool {
            switch self {
            case .cache, .privateCache, .presenceCache, .privateEncryptedCache: true
            default: false
            }
        }

        /// Whether clients may send `client-` events on it: not where the server cannot tell what is in them.
        package var allowsClientEvents: Bool {
            switch self {
            case .private, .privateCache, .presence, .presenceCache: true
            default: false
            }
        }
    }

    /// Longest name in bytes.
    package static let maximumBytes = 200

    /// The name.
    package let string: String
    /// Its kind.
    package let kind: Kind

    /// Nil when the name is empty, too long, or has other characters.
    package init?(_ name: UnsafeRawBufferPointer) {
        guard name.count > 0, name.count <= ChannelName.maximumBytes else { return nil }
        let kind = ChannelName.kind(of: name)
        let start = kind == .serverToUser ? kind.prefix.utf8CodeUnitCount : 0
        guard name.count > start else { return nil }
        // Most characters of a name are letters, which two steps tell.
        for index in start..<name.count {
            guard name[index].isASCIILetter || name[index].isChannelCharacter else { return nil }
        }
        string = name.string
        self.kind = kind
    }

    /// Nil when the name is empty, too long, or has other characters.
    package init?(_ name: String) {
        var name = name
        guard let value = name.withUTF8({ ChannelName(UnsafeRawBufferPointer($0)) }) else { return nil }
        self = value
    }

    private static func kind(of name: UnsafeRawBufferPointer) -> Kind {
        switch name[0] {
        case UInt8(ascii: "p"):
            if name.hasPrefix("private-") {
                if name.hasPrefix("private-encrypted-cache-") { return .privateEncryptedCache }
                if name.hasPrefix("private-encrypted-") { return .privateEncrypted }
                return name.hasPrefix("private-cache-") ? .privateCache : .private
            }
            if name.hasPrefix("presence-") { return name.hasPrefix("presence-cache-") ? .presenceCache : .presence }
            return .public
        case UInt8(ascii: "c"): return name.hasPrefix("cache-") ? .cache : .public
        case UInt8(ascii: "#"): return name.hasPrefix("#server-to-user-") ? .serverToUser : .public
        default: return .public
        }
    }
}

extension UInt8 {
    /// True for the alphabet of channel names and presence user ids.
    @inline(__always) var isChannelCharacter: Bool {
        // One bit for each ASCII character: the tests hold them against the alphabet.
        let bits: UInt64 = self < 64 ? 0x2BFF_7000_0000_0000 : 0x07FF_FFFE_87FF_FFFF
        return self < 0x80 && bits >> UInt64(self & 63) & 1 == 1
    }
}
