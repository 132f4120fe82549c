import Clock
import Sync

/// What few sessions have: those in presence channels, with client events, with a user of more than an id, or still joining.
final class SessionDetail {
    /// Who the session is in the presence channels that it is in or awaits.
    private var memberships: ContiguousArray<Membership> = []
    /// Serials of subscriptions whose repeated subscribe is unanswered, each once.
    private var askingAgain: ContiguousArray<UInt32> = []
    var parked: ContiguousArray<StreamName> = []
    /// Positions that the client named for channels that it is not in yet; at most `ChannelLimits.positionsPerSessionMax`.
    var namedPositions: ContiguousArray<NamedPosition> = []
    /// Tokens refused since the last good one.
    var refusedTokens: UInt32 = 0
    /// Where the search for the next subscription to get a page begins.
    var nextTurn: UInt32 = 0
    /// How many client events it may send now.
    var clientEvents = Allowance()
    /// The signed-in user's `user_info`, JSON as it came. Empty where there is none; nil where it exceeded the app's limit.
    var info: [UInt8]? = []
    /// Whom the signed-in user watches, each once; at most `AppLimits.watchlistMax`.
    var watching: ContiguousArray<Watching> = []

    /// Whether more than an id was said of the signed-in user.
    var saysMoreThanID: Bool { info?.isEmpty != true || !watching.isEmpty }

    /// Whether it can be dropped, for a session that is not behind.
    var isUnused: Bool {
        memberships.isEmpty && askingAgain.isEmpty && parked.isEmpty && namedPositions.isEmpty && refusedTokens == 0
            && clientEvents == Allowance() && !saysMoreThanID
    }

    private struct Membership {
        let channel: LocalChannel
        let userID: String
    }

    /// Notes a repeated subscribe. False where one of that serial is unanswered.
    func asksAgain(_ serial: UInt32) -> Bool {
        guard !askingAgain.contains(serial) else { return false }
        askingAgain.append(serial)
        return true
    }

    func isAnsweredAgain(_ serial: UInt32) {
        askingAgain.removeAll { $0 == serial }
    }

    func enter(_ channel: LocalChannel, as userID: String) {
        memberships.append(Membership(channel: channel, userID: userID))
    }

    func userID(in channel: LocalChannel) -> String? {
        memberships.first { $0.channel === channel }?.userID
    }

    func leave(_ channel: LocalChannel) -> String? {
        guard let index = memberships.firstIndex(where: { $0.channel === channel }) else { return nil }
        return memberships.remove(at: index).userID
    }
}
