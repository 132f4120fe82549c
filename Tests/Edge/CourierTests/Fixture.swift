import Clock
import HubEngine
import Pusher
import Reactor
import Testing

@testable import Courier

/// An app with webhooks of these kinds.
func app(_ id: String = "1", kinds: WebhookKinds = .all) -> App {
    var features = AppFeatures()
    features.webhooks = kinds
    return App(id: id, credentials: signer, index: 0, ownsDatabase: false, features: features)
}

let signer = AppCredentials(key: "key", secret: "secret")

extension WebhookKinds {
    static let all: WebhookKinds = [.channelExistence, .presence, .clientEvents, .cacheChannels, .subscriptionCount]
}

/// A channel's name.
func channel(_ name: String) -> ChannelName {
    guard let name = ChannelName(name) else { preconditionFailure("no name of a channel: \(name)") }
    return name
}

extension WebhookApp {
    /// An app with these URLs, each receiving all kinds.
    init(_ urls: [String], id: String = "1", isBatched: Bool = false) {
        self.init(
            id: id, credentials: signer,
            endpoints: urls.map { WebhookEndpoint(url: $0, kinds: .all, isBatched: isBatched) })
    }
}

extension Instant {
    /// The tests' start time plus that many seconds.
    static func second(_ seconds: Double) -> Instant {
        Instant(nanoseconds: UInt64((seconds + 1_000) * 1e9))
    }
}

/// `#expect` of a call that changes a variable, which the macro does not take.
func expect(_ isSo: Bool, _ location: SourceLocation = #_sourceLocation) {
    #expect(isSo, sourceLocation: location)
}
