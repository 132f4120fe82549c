/// What went wrong.
public enum CarillonError: Error, Equatable, Sendable {
    /// A value from the app is wrong, and which.
    case invalid(String)
    /// The hub takes no action of this size.
    case tooLarge
    /// That action has no conflict that waits for a decision.
    case noConflict
    /// Actions of the user are not confirmed: ask the person what becomes of them.
    case unsentActions(Int)
    /// The user has signed out of this store.
    case signedOut
    /// The client is closed.
    case closed
    /// The hub refuses the token.
    case unauthorized(String)
    /// The app gave no token.
    case noToken
    /// The app gave a token of another user, who is named. Nothing was sent: close the client, or give it a token of its
    /// own user.
    case wrongUser(String)
    /// The hub said: stay away.
    case refused(code: Int, reason: String)
    /// A request by HTTP was answered with that status.
    case http(Int)
    /// The hub's certificate has none of the pinned keys.
    case wrongKey
    /// The address is not TLS, and no loopback.
    case insecure
    /// The store cannot be opened or written.
    case storage(String)
    /// The disk has no room.
    case storageFull
    /// Other processes use the store all the time: try again.
    case storageBusy
    /// The store's file is broken. What is in it cannot be read: `CarillonClient.removeStore` makes way for a new one.
    case storageCorrupt
    /// A newer version of the app has changed the store. Update this one.
    case newerStore
    /// What is stored was changed by something else, or the key is another or gone.
    case tampered
    /// Another process drains this store now.
    case notLeading
    /// The network.
    case network(String)
}
