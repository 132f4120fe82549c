import Bytes
import Pusher

/// The changes that an endpoint was never told of, so that nobody knows what its backend believes of these channels. Nothing
/// of theirs is cancelled until a later event has said again what is true.
///
/// Worst interleaving: an event that was queued before the lost one is delivered after it. It says what was true before the
/// loss, and so settles nothing: events are compared by their numbers (`anEarlierEventSettlesNothing`).
struct LostChanges {
    /// By channel and subject: the number of the last lost event.
    private var channels: [ChannelName: [TextKey: UInt64]] = [:]
    private var count = 0
    /// There were more such than are kept: it may be any channel, until the endpoint has been told all that waits.
    private var mayBeAny = false

    /// An event of that number, or one that was to have it, is dropped.
    mutating func add(_ change: WebhookChange, in channel: ChannelName, number: UInt64) {
        guard !mayBeAny else { return }
        if channels[channel, default: [:]].updateValue(number, forKey: change.subject) == nil { count += 1 }
        guard count > CourierLimits.lostChangesMax else { return }
        self = LostChanges()
        mayBeAny = true
    }

    /// An event of that number was delivered: what it says is known from here on. Where a channel is occupied or vacant, nobody
    /// who was in it before is in it.
    mutating func told(_ change: WebhookChange, in channel: ChannelName, number: UInt64) {
        guard var lost = channels[channel] else { return }
        if change.isOfChannel {
            lost = lost.filter { $0.value > number }
        } else if let last = lost[change.subject], last < number {
            lost[change.subject] = nil
        }
        count -= (channels[channel]?.count ?? 0) - lost.count
        channels[channel] = lost.isEmpty ? nil : lost
    }

    /// The endpoint answers, and nothing waits for it.
    mutating func allTold() { mayBeAny = false }

    /// Whether the backend was told all that was to be told of the channel, so far.
    func isSure(of channel: ChannelName) -> Bool { !mayBeAny && channels[channel] == nil }
}
