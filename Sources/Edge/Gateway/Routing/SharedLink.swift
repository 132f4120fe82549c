import HubEngine
import Reactor

/// One loop's way to it.
struct LoopLink {
    /// This run of the hub, as the others know it.
    let hub: HubID
    let send: (SharedRequest) -> Void
    private let taker = Taker()

    /// Performs on its loop what comes within a turn of it, without a way through the mailbox and the kernel.
    private final class Taker {
        weak var loop: ClientLoop?
    }

    /// From now on this loop performs what comes.
    func serves(_ loop: ClientLoop) { taker.loop = loop }

    /// Opens it; nil without a link.
    init?(_ link: (any SharedLink)?, loop: Int, on eventLoop: EventLoop, _ context: HubContext) throws(ReactorError) {
        guard let link else { return nil }
        let mailbox = context.mailboxes[loop]
        let loops = context.configuration.loops
        send = try link.open(
            loop: loop, of: loops, on: eventLoop, { mailbox.post(.shared($0)) },
            { [taker] arrival in taker.loop.map(arrival.perform(on:)) })
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
    /// - Parameters:
    ///   - receive: takes what the state tells the loop, in the state's order as far as the way keeps it. Any thread.
    ///   - take: the same, performed before it returns. On the loop's thread, and never within a request.
    /// - Returns: what sends the loop's requests. It is called on the loop's thread, and never waits.
    func open(
        loop: Int, of loops: Int, on eventLoop: EventLoop,
        _ receive: @escaping @Sendable (SharedArrival) -> Void, _ take: @escaping (SharedArrival) -> Void
    ) throws(ReactorError) -> (SharedRequest) -> Void
}
