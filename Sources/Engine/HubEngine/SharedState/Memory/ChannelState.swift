import Bytes
import Clock
import Pusher

/// One ordinary channel, over all hubs.
///
/// Invariant: it is in the state's table exactly while somebody is in it, or something of it has to be kept or told.
final class ChannelState {
    let key: ChannelKey
    /// Its last change.
    var sequence: UInt64
    /// Connections to each hub but `HubID.only`.
    private(set) var others: [HubID: Int] = [:]
    /// Connections to all hubs.
    private(set) var total = 0
    var members = PresenceMembers()
    /// Of the list of members.
    var listVersion: UInt64 = 0
    /// For a cache channel: the last event that the app's backend published.
    var cached: KeptEvent?
    /// The departure by which the app's backend hears that the channel is vacant; 0 if there is none.
    var vacating: UInt64 = 0
    /// Whether the backend hears of it when the last member is removed, whose grace is longer.
    var owesVacated = false
    /// The quiet period after a told count; 0 if there is none.
    var countSilence: UInt64 = 0
    /// Whether that period is the one of a channel with many subscribers.
    var isSilentForLong = false
    /// Whether the count has changed in that period.
    var owesCount = false
    var countToldAt = Instant.min
    /// The quiet period in which the app's backend is told of no cache miss; 0 if there is none.
    var missSilence: UInt64 = 0

    init(_ key: ChannelKey, at sequence: UInt64) {
        self.key = key
        self.sequence = sequence
    }

    var name: ChannelName { key.name }
    var isUnused: Bool {
        total == 0 && members.isForgotten && cached == nil && vacating == 0 && countSilence == 0 && missSilence == 0
    }

    /// Connections to one hub.
    func count(of hub: HubID) -> Int { hub == .only ? total - others.values.reduce(0, +) : others[hub] ?? 0 }

    func add(_ count: Int, of hub: HubID) {
        total += count
        guard hub != .only else { return }
        let own = (others[hub] ?? 0) + count
        others[hub] = own > 0 ? own : nil
    }
}

/// The last event of a cache channel, kept.
struct KeptEvent {
    let publication: Publication
    let messages: SharedMessages
    /// The change that told it; also the number of its entry in the eviction order.
    let entry: UInt64
    let due: Instant

    /// What keeping it costs, in bytes.
    var size: Int { publication.event.utf8.count + publication.data.count + messages.byteCount + Self.overhead }

    /// For the channel, its name, and the eviction order.
    static let overhead = 512
}
