import Pusher

/// One Pusher app that this hub serves: who may connect by which key, and what signs for it.
package final class App: Sendable {
    /// Digits only: Pusher's server libraries insist on it.
    package let id: String
    /// The public key, and signatures by the secret.
    package let credentials: AppCredentials
    /// The place among the hub's apps.
    package let index: Int
    /// Whether the database's users and streams are this app's. At most one app's: signatures of another never make
    /// a user of the database.
    package let ownsDatabase: Bool

    package init(id: String, credentials: AppCredentials, index: Int, ownsDatabase: Bool) {
        self.id = id
        self.credentials = credentials
        self.index = index
        self.ownsDatabase = ownsDatabase
    }
}
