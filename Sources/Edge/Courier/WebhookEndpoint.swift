import Channels
import Pusher
import Reactor

/// Where an app's backend wants to be told, and of what.
package struct WebhookEndpoint: Sendable, Equatable {
    /// An `http` or `https` URL; what it is known by among its app's.
    package var url: String
    package var kinds: WebhookKinds
    /// Several events in one request, as many as come within `CourierLimits.batchWindow`.
    package var isBatched: Bool
    /// Further header fields. The names are tokens, the values without line ends (RFC 9110 §5).
    package var headers: [Header]

    /// A header field.
    package struct Header: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(url: String, kinds: WebhookKinds, isBatched: Bool = false, headers: [Header] = []) {
        self.url = url
        self.kinds = kinds
        self.isBatched = isBatched
        self.headers = headers
    }

    /// The URL's scheme, host and port: all of it that may be logged. Paths and user names are often secrets.
    package var origin: String {
        let parts = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2 else { return "" }
        let authority = parts[2].prefix { $0 != "?" && $0 != "#" }
        let host = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
        return "\(parts[0])//\(host)"
    }

    /// Whether the URL names an address that is not of the public internet, or `localhost`: nothing is sent there but where
    /// `CourierConfiguration.allowsPrivate` says so. Other names are judged by what they resolve to, when something is sent.
    package var isLiterallyPrivate: Bool {
        let authority = origin.split(separator: "/", omittingEmptySubsequences: true).last ?? ""
        let host =
            authority.hasPrefix("[") ? authority.dropFirst().prefix { $0 != "]" } : authority.prefix { $0 != ":" }
        return host.lowercased() == "localhost"
            || PeerAddress(String(host)).map { !PublicAddresses.contains($0) } ?? false
    }
}

/// The endpoints of one app, and what their requests are signed with.
package struct WebhookApp: Sendable {
    /// `App.id`.
    package let id: String
    package let credentials: AppCredentials
    /// With URLs that differ.
    package let endpoints: [WebhookEndpoint]

    package init(id: String, credentials: AppCredentials, endpoints: [WebhookEndpoint]) {
        self.id = id
        self.credentials = credentials
        self.endpoints = endpoints
    }
}
