import HubEngine

/// The way to what all hubs share, where that is not in this hub's memory. Any thread; never waits.
package protocol SharedLink: AnyObject, Sendable {
    /// This run of the hub, as the others know it.
    var hub: HubID { get }

    /// What the state tells the loop of that number from now on, in the state's order as far as the way keeps it.
    func open(loop: Int, _ receive: @escaping @Sendable (SharedArrival) -> Void)

    /// Sends a loop's call (`SentChannelCall`). It may be lost: the hub does not wait for ever.
    func send(_ call: [UInt8], from loop: Int)
}

/// What a link brings.
package enum SharedArrival: Sendable {
    /// Encoded `ChannelNews`.
    case news([[UInt8]])
    /// The way was broken, and is well again: what came may be less than what was told.
    case gap
}
