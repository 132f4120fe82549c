/// Limits of what clients send, in bytes unless the name says otherwise.
package struct PusherLimits: Sendable, Equatable {
    /// An event's name (server libraries: 200).
    package var eventNameBytes = 200
    /// A signature with its key: `KEY:hex`, in the hub's own signatures followed by the times.
    package var authBytes = 512
    /// `channel_data` of a subscribe. The app limits its `user_info` further.
    package var channelDataBytes = 16_384
    /// `user_data` of a signin.
    package var userDataBytes = 16_384
    /// A user's id.
    package var userIDBytes = 128
    /// Levels of nesting in a message, including the message itself.
    package var depth = 32

    /// The defaults.
    package init() {}
}
