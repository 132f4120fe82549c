import Bytes
import Pusher

/// What clients are sent of a change, and who is not.
extension ChannelChange {
    /// The sender of an event that is being relayed: its own loop finds it without a search.
    struct Sender {
        let socketID: SocketID
        let exclusion: Exclusion
    }

    /// What clients are told; nil: nothing.
    var broadcast: Broadcast? {
        switch what {
        case .published(let publication, let messages):
            messages.map { .kept($0) } ?? .passing(.published(publication))
        case .relayed(let event):
            .passing(
                event.data.withUnsafeBytes {
                    Messages.clientEvent(event.event, key.name, data: $0, userID: event.userID)
                })
        case .memberAdded(let member): .passing(.memberAdded(key.name, member))
        case .memberRemoved(let user): .passing(.memberRemoved(key.name, id: user))
        case .memberSays: nil
        case .count(let count): .passing(.subscriptionCount(key.name, count))
        }
    }

    func exclusion(_ sender: Sender?) -> Exclusion? {
        switch what {
        case .published(let publication, _): publication.except.map { .socket($0) }
        case .relayed(let event):
            if let sender, sender.socketID == event.sender { sender.exclusion } else { .socket(event.sender) }
        case .memberAdded, .memberRemoved, .memberSays, .count: nil
        }
    }

    /// Whether a session that was let in before the change is not told of it: it had the event, or does not get it.
    func isSilent(for entry: ChannelEntry) -> Bool {
        // In a cache channel the answer may have an older event.
        if entry.isRepeated, isEvent, !key.name.kind.isCache { return true }
        switch what {
        case .published(let publication, _): return publication.except == entry.socketID
        case .memberAdded(let member): return member.id.hasSameBytes(as: entry.member?.id ?? "")
        case .memberRemoved, .memberSays, .relayed, .count: return false
        }
    }
}
