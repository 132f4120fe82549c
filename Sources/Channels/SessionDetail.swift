import Sync

/// What only few sessions have: those in presence channels, those that send client events, and those whose user is more
/// than an id.
final class SessionDetail {
    /// Who the session is in the presence channels that it is in or awaits.
    private var memberships: ContiguousArray<Membership> = []
    /// Subscriptions, by serial, whose repeated subscribe is unanswered: each once.
    private var askingAgain: ContiguousArray<UInt32> = []
    /// How many client events it may send.
    var clientEvents = EventBudget()
    /// The JSON text of the signed-in user's `user_info`, as it came; empty where there is none, nil where it was longer than
    /// the app allows: it is not kept.
    var info: [UInt8]? = []
    /// Whom the signed-in user watches, each once; at most `AppLimits.watchlistMax`.
    var watching: ContiguousArray<Watching> = []

    private struct Membership {
        let channel: Channel
        let userID: String
    }

    /// A subscribe is repeated: false where one of that serial is unanswered.
    func asksAgain(_ serial: UInt32) -> Bool {
        guard !askingAgain.contains(serial) else { return false }
        askingAgain.append(serial)
        return true
    }

    func isAnsweredAgain(_ serial: UInt32) {
        askingAgain.removeAll { $0 == serial }
    }

    func enter(_ channel: Channel, as userID: String) {
        memberships.append(Membership(channel: channel, userID: userID))
    }

    func userID(in channel: Channel) -> String? {
        memberships.first { $0.channel === channel }?.userID
    }

    func leave(_ channel: Channel) -> String? {
        guard let index = memberships.firstIndex(where: { $0.channel === channel }) else { return nil }
        return memberships.remove(at: index).userID
    }
}

/// So many events each second, and as many at once after a silence.
struct EventBudget {
    /// When all that was taken will have been made up for.
    private var madeUp = UnixTime(microseconds: .min)

    /// Takes one, unless there is none left. `perSecond`: at least one.
    mutating func take(at now: UnixTime, perSecond: Int) -> Bool {
        let interval = Duration.microseconds(max(1, 1_000_000 / perSecond))
        // Never further ahead than a burst: a clock that is set back must not stop events until it is there again.
        let full = now.advanced(by: .seconds(1))
        madeUp = min(max(madeUp, now), full)
        let next = madeUp.advanced(by: interval)
        guard next <= full else { return false }
        madeUp = next
        return true
    }
}
