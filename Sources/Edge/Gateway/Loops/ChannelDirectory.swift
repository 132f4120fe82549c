import HubEngine
import Pusher

/// What all hubs share of channels is out of reach: nobody knows, or knows that it was done.
package struct StateUnavailable: Error {
    /// What is known of it.
    package let fault: StateFault

    /// So much is known of it.
    package init(_ fault: StateFault) { self.fault = fault }

    /// Seconds after which a caller may try again. Hubs have three seconds to tell the state what they hold.
    package var retryAfter: Int { fault == .settling ? 3 : 1 }
}

/// The apps and their channels, as a route asks for them. Used on the loop that called the route, only during the call.
///
/// An answer from that loop alone is returned; otherwise nil is, and `answer` gets it later, once, on any thread. A publish
/// is answered when its channels' owners have it, in the order of the calls; while many are in flight, only when every loop
/// has queued the event to its subscribers. So a backend that waits for its answers cannot outrun the hub.
package protocol ChannelDirectory {
    typealias Known<Value> = Result<Value, StateUnavailable>

    /// The app of that id, or of that key.
    func app(id: String) -> App?
    func app(key: String) -> App?

    /// Whether so much of the app is in flight between loops that nothing more should be published or asked. Delayed answers
    /// alone do not hold back a backend with many connections.
    func isOverloaded(by app: App) -> Bool

    /// Publishes to each channel. Returns what is known of each afterwards, in order; it may be empty unless `tellsFacts`.
    func publish(
        _ publications: [Publication], of app: App, tellsFacts: Bool,
        _ answer: @escaping @Sendable (Known<[ChannelFacts]>) -> Void
    ) -> Known<[ChannelFacts]>?

    /// The occupied channels whose names begin with `prefix`. If they are more than `max`: some of them, more than `max`.
    func channels(
        of app: App, prefix: String, max: Int, _ answer: @escaping @Sendable (Known<[String: ChannelFacts]>) -> Void
    ) -> Known<[String: ChannelFacts]>?

    /// What is known of one channel, occupied or not.
    func facts(
        of channel: ChannelName, of app: App, _ answer: @escaping @Sendable (Known<ChannelFacts>) -> Void
    ) -> Known<ChannelFacts>?

    /// The ids of the users in a presence channel.
    func users(
        in channel: ChannelName, of app: App, _ answer: @escaping @Sendable (Known<[String]>) -> Void
    ) -> Known<[String]>?

    /// Closes all connections that are signed in as that user, then answers.
    func terminate(_ userID: String, of app: App, _ answer: @escaping @Sendable () -> Void) -> Void?
}
