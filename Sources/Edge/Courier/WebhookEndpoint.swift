import HubEngine
import Pusher
import Reactor

/// Where an app's backend receives webhooks, and of which kinds.
package struct WebhookEndpoint: Sendable, Equatable {
    /// An `http` or `https` URL; it identifies the endpoint within its app.
    package var url: String
    /// The kinds of events that it is told.
    package var kinds: WebhookKinds
    /// Whether requests carry several events: those that come within `CourierLimits.batchWindow`.
    package var isBatched: Bool
    /// Further header fields. Names are tokens, values contain no line ends (RFC 9110 §5).
    package var headers: [Header]

    /// A header field.
    package struct Header: Sendable, Equatable {
        /// A token (RFC 9110 §5.1).
        package let name: String
        /// The value, without line ends.
        package let value: String

        /// The caller has checked both.
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// An endpoint for events of these kinds.
    package init(url: String, kinds: WebhookKinds, isBatched: Bool = false, headers: [Header] = []) {
        self.url = url
        self.kinds = kinds
        self.isBatched = isBatched
        self.headers = headers
    }

    /// The URL's scheme, host and port: the only part that may be logged. Paths and user names are often secrets.
    package var origin: String {
        let parts = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2 else { return "" }
        let authority = parts[2].prefix { $0 != "?" && $0 != "#" }
        let host = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
        return "\(parts[0])//\(host)"
    }

    /// Whether the URL names `localhost` or an address outside the public internet. Such URLs are used only with
    /// `CourierConfiguration.allowsPrivate`. Other names are checked by the address that they resolve to when something is
    /// sent.
    package var isLiterallyPrivate: Bool {
        let authority = origin.split(separator: "/", omittingEmptySubsequences: true).last ?? ""
        let host =
            authority.hasPrefix("[") ? authority.dropFirst().prefix { $0 != "]" } : authority.prefix { $0 != ":" }
        return host.lowercased() == "localhost"
            || PeerAddress(String(host)).map { !PublicAddresses.contains($0) } ?? false
    }
}

/// The endpoints of one app, and the credentials that sign their requests.
package struct WebhookApp: Sendable {
    /// `App.id`.
    package let id: String
    /// The key and the secret that sign its webhooks.
    package let credentials: AppCredentials
    /// With distinct URLs.
    package let endpoints: [WebhookEndpoint]

    /// An app's endpoints. Their URLs must be distinct.
    package init(id: String, credentials: AppCredentials, endpoints: [WebhookEndpoint]) {
        self.id = id
        self.credentials = credentials
        self.endpoints = endpoints
    }
}
