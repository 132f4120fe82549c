import HubEngine

/// A script that Redis runs for hubs. Each is one change of one bucket: it judges, changes, and tells.
package enum SharedScript: Int, CaseIterable, Sendable {
    /// An event for those in a channel.
    case event
    /// All else about ordinary channels.
    case channel

    /// Its text, with the bounds and times of one bucket.
    ///
    /// - Parameter isTimeGiven: the fourth argument is the time in milliseconds; otherwise the server says it.
    package func text(_ limits: ShardLimits, isTimeGiven: Bool = false) -> String {
        let prelude = ScriptPrelude.text(time: isTimeGiven ? ScriptPrelude.givenTime : ScriptPrelude.serverTime)
        switch self {
        case .event: return prelude + EventScript.text
        case .channel: return prelude + ChannelScript.text(limits)
        }
    }
}
