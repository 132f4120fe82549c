import Bytes
import Clock
import Pusher

/// One ordinary channel at its shard.
///
/// Invariant: it is in the shard's table exactly while somebody is in it, or something of it has to be kept or told.
final class ChannelState {
    let key: ChannelKey
    /// Sessions on each loop.
    private var counts: ContiguousArray<UInt32>
    /// The loops with sessions in it.
    private(set) var loops: LoopSet = []
    /// Sessions over all loops.
    private(set) var total = 0
    var members = PresenceMembers()
    /// What a newcomer is told of these members, until they change. Kept from the second newcomer on.
    var membersTold: SharedMessages?
    /// Whether the first newcomer has been told.
    var isListTold = false
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

    init(_ key: ChannelKey, loops: Int) {
        self.key = key
        counts = ContiguousArray(repeating: 0, count: loops)
    }

    var name: ChannelName { key.name }
    var isUnused: Bool {
        total == 0 && members.isForgotten && cached == nil && vacating == 0 && countSilence == 0 && missSilence == 0
    }

    func membersChanged() {
        membersTold = nil
        isListTold = false
    }

    func add(_ loop: Int) {
        counts[loop] += 1
        total += 1
        loops.insert(LoopSet(loop: loop))
    }

    /// False if the loop has nobody in it.
    func subtract(_ loop: Int) -> Bool {
        guard counts[loop] > 0 else { return false }
        counts[loop] -= 1
        total -= 1
        if counts[loop] == 0 { loops.remove(LoopSet(loop: loop)) }
        return true
    }
}

/// The last event of a cache channel, kept.
struct KeptEvent {
    let event: String
    let data: [UInt8]
    let messages: SharedMessages
    /// The number of its entry in the shard's eviction order.
    let entry: UInt64
    let due: Instant

    /// What keeping it costs, in bytes.
    var size: Int { event.utf8.count + data.count + messages.byteCount + Self.overhead }

    /// For the channel, its name, and the eviction order.
    static let overhead = 512
}
