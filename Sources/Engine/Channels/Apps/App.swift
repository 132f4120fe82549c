import Pusher

/// One Pusher app that this hub serves: who may connect by which key, what signs for it, and what it may do.
///
/// Immutable: a change of the configuration makes a new value with the same `id` and `index`, which takes the old one's
/// place everywhere (`Gateway.replaceApps`).
package final class App: Sendable {
    /// Digits where Pusher's own server libraries are to be used, which insist on it.
    package let id: String
    /// The public key, and signatures by the secret.
    package let credentials: AppCredentials
    /// The place among the hub's apps, never another app's as long as the hub runs.
    package let index: Int
    /// Whether the database's users and streams are this app's. At most one app's: signatures of another never make
    /// a user of the database.
    package let ownsDatabase: Bool
    package let features: AppFeatures
    package let limits: AppLimits
    /// What is counted of the app. `AppTable` sees to it that the value which takes this one's place has the same.
    package let counts: AppCounts

    package init(
        id: String, credentials: AppCredentials, index: Int, ownsDatabase: Bool,
        features: AppFeatures = AppFeatures(), limits: AppLimits = AppLimits(), counts: AppCounts = AppCounts()
    ) {
        self.id = id
        self.credentials = credentials
        self.index = index
        self.ownsDatabase = ownsDatabase
        self.features = features
        self.limits = limits
        self.counts = counts
    }

    /// The same app, counted there.
    func counted(in counts: AppCounts) -> App {
        App(
            id: id, credentials: credentials, index: index, ownsDatabase: ownsDatabase, features: features,
            limits: limits, counts: counts)
    }
}

/// What is switched on for an app; Pusher's defaults.
package struct AppFeatures: Sendable, Equatable {
    /// Whether it is served at all: its connections are closed with 4003, its HTTP calls answered with 403.
    package var isEnabled = true
    /// Members of private and presence channels may send `client-` events to each other.
    package var clientEvents = false
    /// `pusher_internal:subscription_count` is sent, but on presence channels.
    package var subscriptionCounts = false
    /// Signed-in users may watch others come and go.
    package var watchlists = false
    /// A connection that has neither signed in nor joined a channel by a signature is closed after that time; nil: never.
    package var authorizationDeadline: Duration?
    /// The kinds of events that somebody wants to be told of by a webhook.
    package var webhooks: WebhookKinds = []

    package init() {}
}

/// What an app may use; each the largest number allowed. Pusher's figures.
package struct AppLimits: Sendable, Equatable {
    /// Connections; above it one is closed with 4004. Nil: the hub's own bound alone.
    package var connectionsMax: Int?
    /// Ordinary channels; a subscribe that would make one more is refused. Nil: the hub's own bound alone.
    package var channelsMax: Int?
    /// Bytes of the `data` of one published event, or one client event.
    package var eventBytesMax = 10_240
    /// Channels that one publish may name.
    package var channelsPerPublishMax = 100
    /// Events of one batch.
    package var batchEventsMax = 10
    /// Calls that publish, each second on the long run; a batch counts for each of its events. 0: no bound.
    package var publishesPerSecond = 0
    /// Publishes at once after a silence.
    package var publishesBurst = 0
    /// Users in one presence channel.
    package var presenceMembersMax = 100
    /// Bytes of one member's `user_info`.
    package var presenceMemberBytesMax = 1_024
    /// Client events of one connection each second; above it one is answered with `pusher:error` 4301.
    package var clientEventsPerSecond = 10
    /// Users that one user may watch; the rest is cut, and answered with `pusher:error` 4302.
    package var watchlistMax = 100

    package init() {}

    /// Bytes that the largest publish or batch may take as the body of a call. A letter beyond ASCII takes three times its
    /// bytes where it is escaped (`\u0434`), which many libraries do; beside the data stand names, quotes and a socket id.
    package var bodyBytes: Int {
        let event = 3 * eventBytesMax + 1_024
        return max(batchEventsMax * event, event + channelsPerPublishMax * 208)
    }
}
