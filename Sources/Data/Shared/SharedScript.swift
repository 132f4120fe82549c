import Clock
import HubEngine

/// A script that Redis runs for hubs. Each is one change of one bucket: it judges, changes, and tells.
package enum SharedScript: Int, CaseIterable, Sendable {
    /// An event for those in a channel.
    case event
    /// All else about ordinary channels.
    case channel
    /// That a hub lives.
    case beat
    /// All about users.
    case user
    /// Publishes under an `Idempotency-Key`.
    case key

    /// Its text, with the bounds and times of one bucket.
    ///
    /// - Parameters:
    ///   - lease: how long a hub counts as alive after it last said so, and as telling backends what it took over.
    ///   - settling: how long a bucket settles that was empty, or is at another server.
    ///   - isTimeGiven: the fourth argument is the time in milliseconds; otherwise the server says it.
    package func text(
        _ limits: ShardLimits, lease: Duration = .seconds(5), settling: Duration = .seconds(3),
        isTimeGiven: Bool = false
    ) -> String {
        let prelude = ScriptPrelude.text(time: isTimeGiven ? ScriptPrelude.givenTime : ScriptPrelude.serverTime)
        switch self {
        case .event: return prelude + EventScript.text
        case .channel: return prelude + ChannelScript.text(limits, lease: lease)
        case .beat: return prelude + BeatScript.text(lease: lease, settling: settling)
        case .user: return prelude + UserScript.text(limits)
        case .key: return prelude + KeyScript.text
        }
    }
}
