import Clock
import Sync

/// What only few sessions have: those in presence channels, those that send client events, those whose user is more
/// than an id, and those on their way in.
final class SessionDetail {
    /// Who the session is in the presence channels that it is in or awaits.
    private var memberships: ContiguousArray<Membership> = []
    /// Subscriptions, by serial, whose repeated subscribe is unanswered: each once.
    private var askingAgain: ContiguousArray<UInt32> = []
    /// Guarded subscribes that wait for an identity.
    var parked: ContiguousArray<StreamName> = []
    /// Places that the client named for channels that it is not in yet; at most as many as subscriptions.
    var places: ContiguousArray<NamedPlace> = []
    /// Tokens of `sync:auth` refused since the last good one.
    var refusedTokens: UInt32 = 0
    /// Where the search for the next subscription to get a page begins.
    var nextTurn: UInt32 = 0
    /// How many client events it may send.
    var clientEvents = Allowance()
    /// The JSON text of the signed-in user's `user_info`, as it came; empty where there is none, nil where it was longer than
    /// the app allows: it is not kept.
    var info: [UInt8]? = []
    /// Whom the signed-in user watches, each once; at most `AppLimits.watchlistMax`.
    var watching: ContiguousArray<Watching> = []

    /// Whether a new one would be as good, for a session that is not behind.
    var isUnused: Bool {
        memberships.isEmpty && askingAgain.isEmpty && parked.isEmpty && places.isEmpty && refusedTokens == 0
            && clientEvents == Allowance() && info?.isEmpty == true && watching.isEmpty
    }

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
