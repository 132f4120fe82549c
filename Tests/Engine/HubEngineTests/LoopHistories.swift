import HubEngine
import Sync
import TestSupport
import Testing

/// Random histories of several loops with mailboxes, one shard, a feed, a log with retention and resets, and devices that
/// come and go, read slowly, lose received events and ask again. In any order, each device applies a stream's events one
/// after the other or is told that it cannot, and finally has them all.
@Suite(.timeLimit(.minutes(15))) struct LoopHistories {
    private static let streams = [
        StreamID(user: "u", topic: "adherence"), StreamID(user: "u", topic: "reminders"),
    ]
    private static let channels = ["user.u.adherence", "private-user.u.adherence", "user.u.reminders"]

    /// Small bounds, so that every history reaches them.
    private static var limits: StreamLimits {
        var limits = StreamLimits()
        limits.windowEvents = 5
        limits.windowBytes = 900
        limits.windowTotalBytes = 1_300
        limits.replayEvents = 25
        limits.pageEvents = 3
        limits.linger = .nanoseconds(20)
        limits.lingeringMax = 1
        limits.readPause = .nanoseconds(4)
        limits.readPauseMax = .nanoseconds(20)
        return limits
    }

    @Test(arguments: 0..<200 as Range<UInt64>)
    func everyDeviceAppliesEverythingInOrder(_ seed: UInt64) throws {
        var history = History(seed: seed, Self.limits)
        for _ in 0..<600 {
            try history.step()
            let shard = history.world.shard
            #expect(shard.windowByteCount <= Self.limits.windowTotalBytes, "seed \(seed)")
            #expect(shard.lingeringCount <= 1, "seed \(seed)")
        }
        try history.settle()
        for device in history.devices {
            #expect(device.complaints.isEmpty, "seed \(seed): \(device.complaints)")
            for channel in device.channels {
                let feed = device.feeds[channel]
                let log = history.log(channel)
                #expect(feed?.epoch == log.epoch && feed?.offset == log.top, "seed \(seed): \(channel)")
            }
        }
        // A page of the log, and the answers meanwhile, beyond what makes a connection crowded.
        let most = LoopWorld.crowd + 1 + 4 + 4 * Self.channels.count
        #expect(history.mostQueued <= most, "seed \(seed)")
    }

    /// Each loop learns in the middle, after any number of events, that the topics are published. Nothing is missed.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func nothingIsMissedOfATopicThatIsPublishedLater(_ seed: UInt64) throws {
        var history = History(seed: seed, Self.limits, publishes: true)
        for _ in 0..<600 { try history.step() }
        try history.settle()
        for device in history.devices {
            #expect(device.complaints.isEmpty, "seed \(seed): \(device.complaints)")
            for channel in device.channels {
                let feed = device.feeds[channel]
                let log = history.log(channel)
                #expect(feed?.epoch == log.epoch && feed?.offset == log.top, "seed \(seed): \(channel)")
            }
        }
    }

    /// The histories reach every case.
    @Test func historiesMeetEveryCase() throws {
        var losses: [String: Int] = [:]
        var behind = 0
        var reads = 0
        var confirmations = 0
        for seed in 0..<30 as Range<UInt64> {
            var history = History(seed: seed, Self.limits)
            for _ in 0..<600 { try history.step() }
            try history.settle()
            for device in history.devices { losses.merge(device.losses, uniquingKeysWith: +) }
            behind += history.world.fellBehind
            reads += history.world.feed.readCount
            confirmations += history.world.feed.confirmationCount
        }
        for loss in [ResumeLoss.streamReset, .positionExpired, .tooMany, .storeUnavailable] {
            #expect(losses[loss.rawValue, default: 0] > 0, "\(loss)")
        }
        #expect(behind > 0)
        #expect(reads > 0)
        #expect(confirmations > 0)
        #expect(losses[ResumeLoss.ahead.rawValue] == nil)
        #expect(losses[ResumeLoss.forbidden.rawValue] == nil)
    }

    private struct History {
        let world: LoopWorld
        var devices: [ModelDevice] = []
        private var random: SeededRandom
        private var lives = 0
        private(set) var mostQueued = 0
        /// The topics that each loop knows; nil when all were announced before any device came.
        private var published: [[String]]?

        init(seed: UInt64, _ limits: StreamLimits, publishes: Bool = false) {
            random = SeededRandom(seed: seed)
            world = LoopWorld(loops: 3, limits: limits)
            for loop in 0..<3 {
                for slot in 0..<2 as Range<UInt32> { devices.append(ModelDevice(loop: loop, slot: slot)) }
            }
            for stream in LoopHistories.streams { world.feed.logs[stream] = ModelFeed.Log() }
            guard publishes else { return }
            published = [[], [], []]
            for loop in 0..<3 { world.publish([], at: loop) }
        }

        private mutating func publish(_ topic: String, at loop: Int) {
            guard let known = published?[loop], !known.contains(topic) else { return }
            published?[loop] = known + [topic]
            world.publish(known + [topic], at: loop)
        }

        func log(_ channel: String) -> ModelFeed.Log {
            let stream = LoopHistories.streams[channel.hasSuffix("adherence") ? 0 : 1]
            return world.feed.logs[stream] ?? ModelFeed.Log()
        }

        mutating func step() throws {
            let stream = LoopHistories.streams[Int.random(in: 0...1, using: &random)]
            let index = Int.random(in: devices.indices, using: &random)
            world.now += 1
            if published != nil, Int.random(in: 0..<60, using: &random) == 0 {
                publish(stream.topic, at: Int.random(in: 0..<3, using: &random))
            }
            switch Int.random(in: 0..<46, using: &random) {
            case 0..<8: world.feed.commit(stream)
            case 8: for _ in 0..<12 { world.feed.commit(stream) }
            case 9 where Int.random(in: 0..<6, using: &random) == 0:
                lives += 1
                let top = world.feed.logs[stream]?.top ?? 0
                world.feed.lose(
                    stream, epoch: "e\(lives)", top: max(0, top + Int64.random(in: -5...5, using: &random)))
            case 10 where Int.random(in: 0..<3, using: &random) == 0:
                guard let log = world.feed.logs[stream] else { return }
                world.feed.logs[stream]?.floor = Int64.random(in: log.floor...log.top, using: &random)
            case 11, 12: try comeOrGo(index)
            case 13, 14: try toggle(index)
            case 15: try ask(index)
            case 16, 17, 18: read(index, Int.random(in: 1...8, using: &random))
            case 19: world.sweep()
            case 33, 34: world.endPauses()
            case 20..<24: world.feedAnswers()
            case 24..<29: world.feedDelivers(stream)
            case 29, 30, 31, 32:
                let reads = world.feed.reads.count
                guard reads > 0 else { return }
                world.feedReads(
                    Int.random(in: 0..<reads, using: &random), failing: Int.random(in: 0..<3, using: &random) == 0)
            default: world.look(at: Int.random(in: world.mailboxes.indices, using: &random))
            }
        }

        mutating func settle() throws {
            for loop in 0..<3 {
                for stream in LoopHistories.streams { publish(stream.topic, at: loop) }
            }
            while true {
                world.settle()
                var isQuiet = true
                for index in devices.indices {
                    if devices[index].wire?.queue.isEmpty == false { isQuiet = false }
                    read(index, 1_000)
                    for channel in devices[index].channels where devices[index].feeds[channel]?.mustAskAgain == true {
                        isQuiet = false
                        try resume(channel, index)
                    }
                }
                if isQuiet, world.feed.requests.isEmpty, world.mailboxes.allSatisfy(\.isEmpty) { return }
            }
        }

        // MARK: What devices do

        private mutating func comeOrGo(_ index: Int) throws {
            if let wire = devices[index].wire {
                // Sent but unread messages are lost.
                mostQueued = max(mostQueued, wire.mostQueued)
                world.disconnect(wire)
                devices[index].wire = nil
                devices[index].channels = []
                return
            }
            let wire = world.connect(devices[index].loop, slot: devices[index].slot)
            devices[index].wire = wire
            for channel in devices[index].feeds.keys { devices[index].feeds[channel]?.unanswered = 0 }
            let isEarly = Bool.random(using: &random)
            if isEarly { try world.signin(wire) }
            for channel in devices[index].feeds.keys.sorted() {
                if Bool.random(using: &random) {
                    // Before the acknowledgement, or before the subscribe itself.
                    try resume(channel, index)
                    devices[index].feeds[channel]?.mayRepeat = false
                    try subscribe(channel, index)
                } else {
                    try subscribe(channel, index)
                    try resume(channel, index)
                    devices[index].feeds[channel]?.mayRepeat = false
                }
            }
            if !isEarly { try world.signin(wire) }
        }

        private mutating func subscribe(_ channel: String, _ index: Int) throws {
            guard let wire = devices[index].wire else { return }
            devices[index].channels.insert(channel)
            try world.subscribe(channel, wire)
        }

        private mutating func toggle(_ index: Int) throws {
            guard let wire = devices[index].wire else { return }
            let channel = LoopHistories.channels[Int.random(in: 0..<3, using: &random)]
            if devices[index].channels.contains(channel), Bool.random(using: &random) {
                // Also in the middle of a replay. Events in flight are read first, as a client would ignore them.
                read(index, 1_000)
                try world.unsubscribe(channel, wire)
                read(index, 1_000)
                devices[index].channels.remove(channel)
                devices[index].feeds[channel] = nil
            } else {
                try subscribe(channel, index)
            }
        }

        /// Resumes in the middle: from its position, perhaps twice, or after losing received events.
        private mutating func ask(_ index: Int) throws {
            guard let wire = devices[index].wire, let channel = devices[index].channels.sorted().first,
                devices[index].feeds[channel] != nil
            else { return }
            switch Int.random(in: 0..<4, using: &random) {
            case 3:
                // It has fetched a snapshot, which may be newer than what the feed has given to the shard.
                read(index, 1_000)
                let log = log(channel)
                guard let feed = devices[index].feeds[channel], feed.epoch == log.epoch, !feed.mustAskAgain else {
                    return
                }
                devices[index].feeds[channel]?.offset = log.top
                try resume(channel, index)
            case 0:
                wire.queue.removeAll { $0.hasPrefix(#"{"event":"x""#) && $0.contains("\"\(channel)\"") }
                // A snapshot may have been requested in the lost messages; the answer requests it again.
                try resume(channel, index)
            case 1:
                try resume(channel, index)
                read(index, 2)
                try resume(channel, index)
            default:
                try resume(channel, index)
            }
        }

        private mutating func resume(_ channel: String, _ index: Int) throws {
            guard let wire = devices[index].wire, let feed = devices[index].feeds[channel] else { return }
            devices[index].feeds[channel]?.awaitsResumed = true
            devices[index].feeds[channel]?.unanswered += 1
            devices[index].feeds[channel]?.mayRepeat = true
            devices[index].feeds[channel]?.mustAskAgain = false
            try world.resume(channel, feed.epoch, feed.offset, wire)
        }

        private mutating func read(_ index: Int, _ count: Int) {
            guard let wire = devices[index].wire else { return }
            mostQueued = max(mostQueued, wire.mostQueued)
            for text in world.read(count, wire) { devices[index].take(text) }
        }
    }
}
