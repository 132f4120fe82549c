import Bytes
import Pusher

/// Why a subscribe is refused for good, as `pusher:subscription_error` tells it: constant texts, nothing of the client's.
/// pusher-js never retries that channel on the connection.
package struct SubscriptionRefusal: Error {
    /// The end of the message, after the channel's name.
    let ending: SharedBytes
    /// Its reason among refused credentials; nil where it is about something else.
    let authFailure: String?
    /// Whose bound on channels was reached; nil for none.
    package let bound: Bound?
    /// Whether the shared state is out of reach.
    package let isOfState: Bool

    /// The bounds on channels: the hub's, or the app's.
    package enum Bound: Sendable { case hub, app }

    /// `status`: an HTTP status, as Pusher's clients expect.
    private init(
        _ type: StaticString, _ status: Int, _ message: StaticString, authFailure: String? = nil, bound: Bound? = nil,
        isOfState: Bool = false
    ) {
        ending = ServerEvent.subscriptionErrorEnding(type: type, error: message, status: status)
        self.authFailure = authFailure
        self.bound = bound
        self.isOfState = isOfState
    }

    /// The signature is missing or wrong.
    package static let badSignature = SubscriptionRefusal(
        "AuthError", 401, "The signature does not fit this channel and socket id, or is missing",
        authFailure: "channel_signature")
    /// A user's channel, for a session of another user.
    package static let otherUser = SubscriptionRefusal(
        "AuthError", 403, "This channel belongs to another user", authFailure: "other_user")
    /// A user's channel, for a session without a user.
    package static let notSignedIn = SubscriptionRefusal(
        "AuthError", 401, "#server-to-user- channels need a connection that is signed in: send pusher:signin first",
        authFailure: "other_user")
    /// The token or the signature is older than the user's revocation.
    package static let revoked = SubscriptionRefusal(
        "AuthError", 401, "Access was revoked after this was issued; get a new token", authFailure: "revoked")
    /// The name looks like a user's channel, and is not spelled like one.
    package static let notCanonical = SubscriptionRefusal(
        "AuthError", 400,
        "Names that begin with user. or private-user. must be user.<id>.<topic>, the id's odd bytes written =XX")
    /// The name has other characters, or too many.
    package static let noChannelName = SubscriptionRefusal(
        "InvalidChannel", 400,
        "This is no channel name: names have 1 to 200 letters, digits and _-=@,.;")
    /// The connection is in as many channels as it may be.
    package static let tooManyChannels = SubscriptionRefusal(
        "LimitReached", 403, "This connection has as many channels as it may have")
    /// The hub has as many channels as it may have.
    package static let channelsFull = SubscriptionRefusal(
        "LimitReached", 503,
        "This hub has no room for another channel of this connection now: channels that exist can be joined. Try again later",
        bound: .hub)
    /// The app has as many channels as it may have.
    package static let appChannelsFull = SubscriptionRefusal(
        "LimitReached", 503,
        "This app has no room for another channel of this connection now: channels that exist can be joined. Try again later",
        bound: .app)
    /// What all hubs share of the channel is out of reach.
    package static let unavailable = SubscriptionRefusal(
        "Unavailable", 503, "The hub cannot say now who else is in this channel. Try again later", isOfState: true)
    /// Too many subscribes of the connection wait for its sign-in.
    package static let tooManyParked = SubscriptionRefusal(
        "LimitReached", 403, "Too many channels wait for this connection to sign in")
    /// A presence channel's `channel_data` names no user.
    package static let badChannelData = SubscriptionRefusal(
        "AuthError", 400, "channel_data of a presence channel needs a user_id: a string of 1 to 128 bytes, or a number")
    /// A presence channel, for a session without a user and without `channel_data`.
    package static let noMember = SubscriptionRefusal(
        "AuthError", 401, "A presence channel needs channel_data, or a connection that is signed in")
    /// The `user_info` is longer than the app allows.
    package static let memberTooLarge = SubscriptionRefusal(
        "LimitReached", 413, "The user_info of a member is longer than this app allows")
    /// The presence channel is full.
    package static let tooManyMembers = SubscriptionRefusal(
        "LimitReached", 403, "This presence channel has as many users as it may have")
    /// The user has as many streams as one user may have.
    package static let tooManyStreams = SubscriptionRefusal(
        "LimitReached", 403, "This user is in as many streams as one user may be in")
    /// PostgreSQL's text cannot hold the user's id.
    package static let notNameable = SubscriptionRefusal(
        "AuthError", 400, "The database can hold no user of this name")
}
