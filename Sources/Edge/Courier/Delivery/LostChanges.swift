import Bytes
import Pusher

/// Changes that an endpoint was never told, so its backend's view of these channels is unknown. No event of theirs is
/// cancelled until a later event has restated the truth.
///
/// Worst interleaving: an event queued before the lost one is delivered after it. It tells the state before the loss, so it
/// settles nothing: events are compared by number (`anEarlierEventSettlesNothing`).
struct LostChanges {
    /// By channel and subject: the number of the last lost event.
    private var channels: [ChannelName: [TextKey: UInt64]] = [:]
    private var count = 0
    /// Too many changes were lost to remember: any channel may be affected, until all that waits is delivered.
    private var mayBeAny = false

    /// Records that an event with that number was dropped.
    mutating func add(_ change: WebhookChange, in channel: ChannelName, number: UInt64) {
        guard !mayBeAny else { return }
        if channels[channel, default: [:]].updateValue(number, forKey: change.subject) == nil { count += 1 }
        guard count > CourierLimits.lostChangesMax else { return }
        self = LostChanges()
        mayBeAny = true
    }

    /// Records that an event with that number was delivered: its subject is known from here on. A channel's occupation or
    /// vacation also settles its members: none who was in it before is still in it.
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

    /// Whether the backend was told all changes of the channel so far.
    func isSure(of channel: ChannelName) -> Bool { !mayBeAny && channels[channel] == nil }
}
