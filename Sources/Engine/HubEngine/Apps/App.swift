import Clock
import Metrics
import Pusher

/// One Pusher app that this hub serves: its keys, its secret, and what it may do.
///
/// Immutable: `Gateway.replaceApps` replaces it everywhere by a new value with the same `id` and `index`.
package final class App: Sendable {
    /// Digits, where Pusher's own server libraries are to be used: they insist on it.
    package let id: String
    /// The public key, and signatures by the secret.
    package let credentials: AppCredentials
    /// The index among the hub's apps. No other app gets it while the hub runs.
    package let index: Int
    /// Whether the database's users and streams are this app's, at most one's. Other apps' signatures make no user of it.
    package let ownsDatabase: Bool
    /// What the app has switched on.
    package let features: AppFeatures
    /// The app's bounds.
    package let limits: AppLimits
    /// The app's counts. `AppTable` hands them on to the value that replaces this one.
    package let counts: AppCounts

    /// An app. `index` is its own among all apps that this hub ever served.
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

    /// Takes that many publishes from the app's rate, or returns how long until there are as many. A batch above the burst
    /// is let through when the whole burst is there. Any thread.
    package func takePublishes(_ count: Int, at now: Instant) -> Duration? {
        guard limits.publishesPerSecond > 0 else { return nil }
        let wait = counts.publishes.take(counts.elsewhere.rate(limits), at: now, cost: count)
        if wait == nil { counts.publishesTaken.add(count) }
        return wait
    }

    /// Counts in a connection; else why it is closed. One that is too many only with those of other hubs may try again: what
    /// a hub had that has died, or hands over its clients, is counted until others know. Any thread.
    package func enterConnection() -> ErrorCode? {
        guard let most = limits.connectionsMax else {
            _ = counts.connections.enter(most: nil)
            return nil
        }
        guard counts.connections.enter(most: most - counts.elsewhere.connections) == nil else { return nil }
        counts.refused(.connections)
        return counts.connections.count >= most ? .overQuota : .overCapacity
    }

    func counted(in counts: AppCounts) -> App {
        App(
            id: id, credentials: credentials, index: index, ownsDatabase: ownsDatabase, features: features,
            limits: limits, counts: counts)
    }
}

/// What is switched on for an app. The defaults are Pusher's.
package struct AppFeatures: Sendable, Equatable {
    /// Whether the app is served. If not, its connections are closed with 4003 and its HTTP calls answered with 403.
    package var isEnabled = true
    /// Members of private and presence channels may send `client-` events to each other.
    package var clientEvents = false
    /// `pusher_internal:subscription_count` is sent, except on presence channels.
    package var subscriptionCounts = false
    /// Signed-in users may watch others come and go.
    package var watchlists = false
    /// A connection that has neither signed in nor joined a channel by a signature is closed after this time. Nil: never.
    package var authorizationDeadline: Duration?
    /// The kinds of events that some webhook of the app asks for.
    package var webhooks: WebhookKinds = []

    /// The defaults.
    package init() {}
}

/// What an app may use; each is the largest number allowed. Pusher's figures.
package struct AppLimits: Sendable, Equatable {
    /// Connections. One more is closed with 4004. Nil: only the hub's own bound holds.
    package var connectionsMax: Int?
    /// Ordinary channels. A subscribe that would make one more is refused. Nil: only the hub's own bound holds.
    package var channelsMax: Int?
    /// Bytes of the `data` of one published event, or of one client event.
    package var eventBytesMax = 10_240
    /// Channels that one publish may name.
    package var channelsPerPublishMax = 100
    /// Events of one batch.
    package var batchEventsMax = 10
    /// Publishes per second on average. A batch counts once for each of its events. 0: no bound.
    package var publishesPerSecond = 0
    /// Publishes at once after a pause (the token bucket's burst).
    package var publishesBurst = 0
    /// Users in one presence channel.
    package var presenceMembersMax = 100
    /// Bytes of one member's `user_info`.
    package var presenceMemberBytesMax = 1_024
    /// Client events of one connection per second. One more is answered with `pusher:error` 4301.
    package var clientEventsPerSecond = 10
    /// Users that one user may watch. The rest is cut, and answered with `pusher:error` 4302.
    package var watchlistMax = 100

    /// The defaults.
    package init() {}

    /// Bytes that the largest publish or batch may take as a request body. A letter beyond ASCII takes three times its bytes
    /// when escaped (`\u0434`), as many libraries do. The rest is for names, quotes and a socket id.
    package var bodyBytes: Int {
        let event = 3 * eventBytesMax + 1_024
        return max(batchEventsMax * event, event + channelsPerPublishMax * 208)
    }
}
