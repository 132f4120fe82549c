import HubEngine
import Reactor

/// One loop's way to it.
struct LoopLink {
    /// This run of the hub, as the others know it.
    let hub: HubID
    let send: (SharedRequest) -> Void

    /// Opens it; nil without a link.
    init?(_ link: (any SharedLink)?, loop: Int, on eventLoop: EventLoop, _ context: HubContext) throws(ReactorError) {
        guard let link else { return nil }
        let mailbox = context.mailboxes[loop]
        let loops = context.configuration.loops
        send = try link.open(loop: loop, of: loops, on: eventLoop) { mailbox.post(.shared($0)) }
        hub = link.hub
    }
}

/// The way to what all hubs share, where that is not in this hub's memory. Any thread.
package protocol SharedLink: AnyObject, Sendable {
    /// This run of the hub, as the others know it.
    var hub: HubID { get }

    /// These apps are served from now on, with these bounds and features, and are counted in these values.
    func serve(_ apps: [App])

    /// A client was told that its subscribe failed, because the state is out of reach.
    func wasMissed()

    /// Opens the way of one of `loops` loops. Called on its thread, before it serves.
    ///
    /// - Parameter receive: takes what the state tells the loop, in the state's order as far as the way keeps it. Any
    ///   thread.
    /// - Returns: what sends the loop's requests. It is called on the loop's thread, and never waits.
    func open(
        loop: Int, of loops: Int, on eventLoop: EventLoop,
        _ receive: @escaping @Sendable (SharedArrival) -> Void
    ) throws(ReactorError) -> (SharedRequest) -> Void
}
