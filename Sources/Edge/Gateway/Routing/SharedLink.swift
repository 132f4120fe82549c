import HubEngine

/// The way to what all hubs share, where that is not in this hub's memory. Any thread; never waits.
package protocol SharedLink: AnyObject, Sendable {
    /// This run of the hub, as the others know it.
    var hub: HubID { get }

    /// These apps are served from now on, with these bounds and features. Those that the hub begins with, it is made with.
    func serve(_ apps: [App])

    /// What the state tells the loop of that number from now on, in the state's order as far as the way keeps it.
    func open(loop: Int, _ receive: @escaping @Sendable (SharedArrival) -> Void)

    /// Sends what a loop asks or tells: `SentChannelCall` and `SentUserCall` to the state, `HubCommand` to all other hubs.
    /// It may be lost: the hub does not wait for ever.
    func send(_ message: [UInt8], from loop: Int)
}
