import Bytes
import Clock
import Pusher

/// One ordinary channel at its home.
///
/// Invariant: it is in the home's table exactly while somebody is in it, or something of it is to be kept or told.
final class HomeChannel {
    let key: ChannelKey
    /// Sessions on each loop.
    private var counts: ContiguousArray<UInt32>
    /// The loops that have some.
    private(set) var loops: LoopSet = []
    /// Over all loops.
    private(set) var total = 0
    /// Of a presence channel.
    var members = PresenceMembers()
    /// What a session is told that is in with these members, until they are others; kept from the second on that is.
    var membersTold: SharedMessages?
    /// Whether the first has been.
    var isListTold = false
    /// Of a cache channel: the last event that the app's backend published.
    var cached: KeptEvent?
    /// The departure by which the app's backend hears that nobody is left; 0 where none does.
    var vacating: UInt64 = 0
    /// Whether the backend hears of it when the last member is gone, whose grace is longer.
    var owesVacated = false
    /// The silence in which counts are not told, for one was; 0 where there is none.
    var countSilence: UInt64 = 0
    /// Whether it is that of a channel with many subscribers.
    var isSilentForLong = false
    /// Whether the count has changed in it.
    var owesCount = false
    /// When a count was told last.
    var countToldAt = Instant.min
    /// The silence in which cache misses are not told to the app's backend; 0 where there is none.
    var missSilence: UInt64 = 0

    init(_ key: ChannelKey, loops: Int) {
        self.key = key
        counts = ContiguousArray(repeating: 0, count: loops)
    }

    var name: ChannelName { key.name }
    var isUnused: Bool {
        total == 0 && members.isForgotten && cached == nil && vacating == 0 && countSilence == 0 && missSilence == 0
    }

    /// One has come or gone.
    func membersChanged() {
        membersTold = nil
        isListTold = false
    }

    func add(_ loop: Int) {
        counts[loop] += 1
        total += 1
        loops.insert(LoopSet(loop: loop))
    }

    /// False where the loop has nobody in it.
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
    /// Which entry of the home's order stands for it.
    let entry: UInt64
    /// When it is forgotten.
    let due: Instant

    /// What it costs to keep it, in bytes.
    var size: Int { event.utf8.count + data.count + messages.byteCount + Self.overhead }

    /// Of the channel, its name, and the order.
    static let overhead = 512
}
