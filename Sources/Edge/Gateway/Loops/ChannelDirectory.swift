import Channels
import Pusher

/// The apps and their channels, as a route asks for them. Used on the loop that called the route, during the call.
///
/// Answers that all come from that loop are returned; else nil is, and `answer` gets them later, once, on any thread.
/// A publish is answered when it is with its channels' owners, in the order of the calls; while many are under way, only when
/// every loop has queued the event to its subscribers: a backend that waits for its answers cannot outrun the hub.
package protocol ChannelDirectory {
    /// The app of that id, or of that key.
    func app(id: String) -> App?
    func app(key: String) -> App?

    /// Whether so much of the app's is on its way between loops that nothing more should be published or asked: answers
    /// alone hold nobody back who has many connections.
    func isOverloaded(by app: App) -> Bool

    /// Publishes to each channel, and tells what the hub knows of each of them afterwards, in their order; where nobody asks
    /// for that (`tellsFacts`), what it tells may be empty.
    func publish(
        _ publications: [Publication], of app: App, tellsFacts: Bool,
        _ answer: @escaping @Sendable ([ChannelFacts]) -> Void
    ) -> [ChannelFacts]?

    /// The occupied channels whose names begin with `prefix`. Where they are more than `max`, more than `max` of them, and
    /// not all.
    func channels(
        of app: App, prefix: String, max: Int, _ answer: @escaping @Sendable ([String: ChannelFacts]) -> Void
    ) -> [String: ChannelFacts]?

    /// What is known of one channel, occupied or not.
    func facts(
        of channel: ChannelName, of app: App, _ answer: @escaping @Sendable (ChannelFacts) -> Void
    ) -> ChannelFacts?

    /// The ids of the users in a presence channel.
    func users(
        in channel: ChannelName, of app: App, _ answer: @escaping @Sendable ([String]) -> Void
    ) -> [String]?

    /// Closes all connections that are signed in as that user; says when it is done.
    func terminate(_ userID: String, of app: App, _ answer: @escaping @Sendable () -> Void) -> Void?
}
