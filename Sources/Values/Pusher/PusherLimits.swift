/// The bounds of what clients say; all in bytes, except where the name says otherwise.
package struct PusherLimits: Sendable, Equatable {
    /// Names of events (server libraries: 200).
    package var eventNameBytes = 200
    /// A signature with its key: `KEY:hex`, and of the hub's own, the times.
    package var authBytes = 512
    /// `channel_data` of a subscribe; how much of it may be `user_info` is the app's to say.
    package var channelDataBytes = 16_384
    /// `user_data` of a signin.
    package var userDataBytes = 16_384
    /// A user's id.
    package var userIDBytes = 128
    /// Levels of nesting in a message, the message included.
    package var depth = 32

    /// The defaults.
    package init() {}
}
