import Crypto
import Foundation

/// What a client needs to know.
public struct CarillonOptions: Sendable {
    /// The hub's address, such as `https://hub.example.com`. Without TLS only loopback is allowed.
    public var hub: URL
    /// The app's key.
    public var key: String
    /// The user's id.
    public var user: String
    /// Where the store of this user is: a folder that is there, of an app group where a widget is to append too.
    public var folder: URL
    /// A fresh token of the user, from the app's backend. Called for each connection, before a token expires, and for each
    /// snapshot.
    public var token: @Sendable () async throws -> String
    /// For private and presence channels of `subscribe`: what the app's backend signs of a channel for a socket, as its
    /// answer to pusher-js.
    public var authorize: (@Sendable (_ channel: String, _ socketID: String) async throws -> CarillonChannelAuth)?
    /// The network; nil: that of the system.
    public var transport: (any ClientTransport)?
    /// Where the keys of an encrypted store are; nil: the store is not encrypted.
    public var keyStore: (any KeyStore)?
    /// The device's zone.
    public var timeZone: @Sendable () -> String = { TimeZone.current.identifier }
    /// The clock.
    public var now: @Sendable () -> Date = { Date() }
    /// The shortest and the longest bound of the waits between two connections, in milliseconds.
    public var backoffMs = 1000.0...30_000.0

    /// Options; see the members.
    public init(
        hub: URL, key: String, user: String, folder: URL, token: @escaping @Sendable () async throws -> String
    ) {
        self.hub = hub
        self.key = key
        self.user = user
        self.folder = folder
        self.token = token
    }

    /// One store for each hub and user.
    var file: URL {
        let name = "\(hub.scheme ?? "")://\(hub.host ?? ""):\(hub.port ?? 0) \(user)"
        let digest = SHA256.hash(data: Data(name.utf8)).prefix(12).map { byte in
            let digits = String(byte, radix: 16)
            return digits.count < 2 ? "0" + digits : digits
        }
        return folder.appendingPathComponent("carillon-\(digest.joined()).sqlite")
    }

    /// Throws where tokens would be sent in the clear.
    func check() throws {
        let loopback = ["localhost", "127.0.0.1", "::1", "[::1]"]
        switch hub.scheme {
        case "https": break
        case "http": guard loopback.contains(hub.host ?? "") else { throw CarillonError.insecure }
        default: throw CarillonError.invalid("the hub's address begins with https")
        }
        guard !user.isEmpty, user.utf8.count <= 200, !key.isEmpty else {
            throw CarillonError.invalid("a key and a user of 1 to 200 bytes are needed")
        }
    }

    /// The app's transport, or the system's.
    func network() throws -> any ClientTransport {
        if let transport { return transport }
        #if canImport(Security)
        return try URLSessionTransport()
        #else
        return try NIOTransport()
        #endif
    }

    var socketURL: URL? {
        var parts = URLComponents(url: hub, resolvingAgainstBaseURL: false)
        parts?.scheme = hub.scheme == "https" ? "wss" : "ws"
        parts?.percentEncodedPath = path + "/app/" + escaped(key)
        parts?.percentEncodedQuery = "protocol=7&client=carillon-swift&version=1.0.0"
        return parts?.url
    }

    /// A hub may be below a path.
    private var path: String { hub.path.hasSuffix("/") ? String(hub.path.dropLast()) : hub.path }

    func url(of part: ClientSnapshot.Part) -> URL? {
        var parts = URLComponents(url: hub, resolvingAgainstBaseURL: false)
        let pieces = part.path.split(separator: "?", maxSplits: 1)
        parts?.percentEncodedPath = path + "/users/" + escaped(user) + "/" + pieces[0]
        parts?.percentEncodedQuery = pieces.count > 1 ? String(pieces[1]) : nil
        return parts?.url
    }
}

/// What an app's backend signs so that a socket may join a private or presence channel.
public struct CarillonChannelAuth: Sendable, Equatable {
    /// The app's key and the signature.
    public let auth: String
    /// Of a presence channel: who the user is there, as JSON.
    public let channelData: String?

    /// The members `auth` and `channel_data` of the backend's answer.
    public init(auth: String, channelData: String? = nil) {
        self.auth = auth
        self.channelData = channelData
    }
}

/// A message on a channel that the app has subscribed to.
public struct CarillonMessage: Sendable, Equatable {
    /// The event's name.
    public let event: String
    /// Its data, as the hub sent it: JSON mostly.
    public let data: String
}

/// What becomes of actions that no hub has confirmed, when a user signs out.
public enum CarillonUnsent: Sendable {
    /// `signOut` throws `unsentActions`: ask the person.
    case ask
    /// They are deleted with the store.
    case discard
    /// They stay, and are sent when the user signs in here again.
    case keep
}

/// The device is in another zone than the user's settings.
public struct CarillonZoneChange: Sendable, Equatable {
    /// The user's zone.
    public let from: String
    /// The device's.
    public let to: String
}

/// What `setZone` does.
public enum CarillonZoneChoice: Sendable {
    /// The user's zone stays.
    case keep
    /// What follows the user moves to the device's zone.
    case convert
}
