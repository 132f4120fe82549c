// Pusher: the values of Pusher Channels, protocol 7, and their JSON.
//
// Purpose: `ClientEvent` reads a client's messages and `ServerEvent` writes the hub's. Names, ids, codes and signatures have
// distinct types. Invariants: `data` is written as a string, except in `pusher:error`, where clients need an object; nothing
// from a peer is echoed unescaped; signatures are compared in constant time. Where the protocol page is silent, pusher-js
// 8.6.0 and pusher-websocket-swift decide. Depends on Bytes, JSON, Digests.

import Bytes

/// The name of a channel: 1–200 characters of `[-A-Za-z0-9_=@,.;]`, or `#server-to-user-<id>`.
///
/// Pusher documents 164 characters; its server libraries allow 200.
package struct ChannelName: Hashable, Sendable {
    /// The kind of a channel, by its name's prefix. The longest prefix wins, hyphen included: `cached-news` is public.
    package enum Kind: Sendable, CaseIterable {
        case `public`, `private`, presence, privateEncrypted
        case cache, privateCache, presenceCache, privateEncryptedCache
        case serverToUser

        /// The prefix of names of this kind.
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

        /// Whether members know of each other.
        package var isPresence: Bool { self == .presence || self == .presenceCache }

        /// Whether the last event is kept for new subscribers.
        package var isCache: Bool {
            switch self {
            case .cache, .privateCache, .presenceCache, .privateEncryptedCache: true
            default: false
            }
        }

        /// Whether clients may send `client-` events: not on encrypted channels, whose content the server cannot read.
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
        // Most characters are letters, and the letter test is quick.
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
    /// True for characters of channel names and presence user ids.
    @inline(__always) var isChannelCharacter: Bool {
        // One bit for each ASCII character. Tests check them against the alphabet.
        let bits: UInt64 = self < 64 ? 0x2BFF_7000_0000_0000 : 0x07FF_FFFE_87FF_FFFF
        return self < 0x80 && bits >> UInt64(self & 63) & 1 == 1
    }
}
