import Clock
import HubEngine
import Pusher
import TestSupport

/// A state of ordinary channels that is elsewhere: a deliberately slow one. Each call, change and reply passes through its
/// encoding. What the state tells a hub waits until the test takes it; replies and changes overtake each other.
final class SlowLink {
    /// What happens to messages on the way, by chance.
    struct Faults {
        /// Of a hundred.
        var lostCalls = 0
        var lostChanges = 0
        var lostReplies = 0
        var doubled = 0
    }

    let memory: MemoryChannels
    let apps = KnownApps()
    var faults = Faults()
    private var random: SeededRandom
    private var changes: [HubID: [[UInt8]]] = [:]
    private var replies: [HubID: [[UInt8]]] = [:]
    /// The bytes of the longest message so far.
    private(set) var longest = 0
    /// The calls that hubs have sent, lost ones too.
    private(set) var sent = 0

    init(_ limits: ShardLimits, metrics: EngineMetrics = EngineMetrics(), of served: [App], seed: UInt64) {
        random = SeededRandom(seed: seed)
        memory = MemoryChannels(limits: limits, metrics: metrics)
        for app in served {
            apps.replace(app)
            memory.replace(app)
        }
    }

    private func chance(_ percent: Int) -> Bool { percent > 0 && Int.random(in: 0..<100, using: &random) < percent }

    /// A hub sends a call; the state takes it at once, in the order of sending.
    func send(_ bytes: [UInt8], at now: Instant, to hubs: [HubID]) throws {
        sent += 1
        if chance(faults.lostCalls) { return }
        longest = max(longest, bytes.count)
        let sent = try SentChannelCall(bytes, apps)
        var news = ContiguousArray<ChannelNews>()
        let reply = memory.call(sent.call, sent.number, from: sent.hub, now: now, &news)
        tell(news, of: sent.hub, to: hubs)
        if let reply, !chance(faults.lostReplies) {
            add(ChannelNews.reply(sent.number, reply).encoded(apps), to: \.replies, sent.hub)
        }
    }

    /// What is due ends; the first hub is told of webhooks.
    func tick(at now: Instant, to hubs: [HubID]) {
        while let due = memory.nextDue, due <= now {
            var news = ContiguousArray<ChannelNews>()
            _ = memory.call(.due, 0, from: hubs[0], now: now, &news)
            tell(news, of: hubs[0], to: hubs)
        }
    }

    private func tell(_ news: ContiguousArray<ChannelNews>, of caller: HubID, to hubs: [HubID]) {
        for item in news {
            if case .change = item {
                for hub in hubs where !chance(faults.lostChanges) { add(item.encoded(apps), to: \.changes, hub) }
            } else {
                add(item.encoded(apps), to: \.replies, caller)
            }
        }
    }

    private func add(
        _ bytes: [UInt8], to queues: ReferenceWritableKeyPath<SlowLink, [HubID: [[UInt8]]]>, _ hub: HubID
    ) {
        longest = max(longest, bytes.count)
        for _ in 0..<(chance(faults.doubled) ? 2 : 1) { self[keyPath: queues][hub, default: []].append(bytes) }
    }

    /// The next message for the hub, of either kind.
    func next(for hub: HubID) -> [UInt8]? {
        let kinds: [ReferenceWritableKeyPath<SlowLink, [HubID: [[UInt8]]]>] = [\.changes, \.replies]
        let first = Int.random(in: 0...1, using: &random)
        for kind in [kinds[first], kinds[1 - first]] where self[keyPath: kind][hub]?.isEmpty == false {
            return self[keyPath: kind][hub]?.removeFirst()
        }
        return nil
    }

    var isQuiet: Bool { changes.values.allSatisfy(\.isEmpty) && replies.values.allSatisfy(\.isEmpty) }
}
