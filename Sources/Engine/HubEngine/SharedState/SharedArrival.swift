/// What a link brings from a state elsewhere.
package enum SharedArrival: Sendable {
    /// Encoded `ChannelNews`, for the loop that owns the channel or has asked; `SharedUserNews` and `HubCommand` for any.
    case news([[UInt8]])
    /// Encoded `ChannelNews.webhook`, which this hub is to tell backends. It has done so once nobody holds the receipt.
    case webhooks([[UInt8]], WebhookReceipt)
    /// So many of these were dropped: no hub serves their apps.
    case unserved(Int)
    /// The way was broken, and is well again: what came may be less than what was told.
    case gap
    /// The link has ended, as it was asked to.
    case ended
}
