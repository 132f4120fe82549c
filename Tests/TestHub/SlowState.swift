import Clock
import Foundation
import Gateway
import HubEngine
import Reactor
import Testing

/// What hubs share, elsewhere and deliberately slow: each call, change and reply passes through its encoding and comes a
/// random time later. Changes and webhooks keep their order; replies overtake them.
package final class SlowState: SharedLink, @unchecked Sendable {
    private struct Parcel {
        let at: Instant
        let loop: Int
        let bytes: [UInt8]
    }

    package let hub = HubID(1)
    // All below is under the lock.
    private let condition = NSCondition()
    private let memory: MemoryChannels
    private let users: MemoryUsers
    private let apps = KnownApps()
    private let loops: Int
    private var receivers: [Int: @Sendable (SharedArrival) -> Void] = [:]
    private var parcels: [Parcel] = []
    private var lastChange = Instant.min
    private var hasEnded = false
    private var told: [HubCommand] = []

    /// Within a test that runs once more with it (`SlowStateTrait`).
    @TaskLocal package static var isWanted = false
    /// Whether the state is not in the hub's memory.
    package static var isElsewhere: Bool { isWanted || RedisState.isWanted }

    package func wasMissed() {}

    /// For a hub of that configuration.
    package init(_ configuration: GatewayConfiguration) {
        loops = configuration.loops
        var limits = configuration.channelLimits.shards
        limits.membersBytesMax = min(limits.membersBytesMax, configuration.limits.sendQueueBytesMax / 4)
        memory = MemoryChannels(limits: limits)
        users = MemoryUsers(apps, limits: limits)
        for app in configuration.apps { take(app) }
        Thread.detachNewThread { [self] in run() }
    }

    package func serve(_ served: [App]) {
        condition.withLock {
            for app in served { take(app) }
        }
    }

    /// With counts of its own: the hub's are of what the hub has.
    private func take(_ app: App) {
        let own = App(
            id: app.id, credentials: app.credentials, index: app.index, ownsDatabase: app.ownsDatabase,
            features: app.features, limits: app.limits)
        apps.replace(own)
        memory.replace(own)
    }

    package func open(
        loop: Int, of loops: Int, on eventLoop: EventLoop, _ receive: @escaping @Sendable (SharedArrival) -> Void,
        _ take: @escaping (SharedArrival) -> Void
    ) -> (SharedRequest) -> Void {
        condition.withLock { receivers[loop] = receive }
        return { [self] request in
            switch request {
            case .channel(let sent): send(condition.withLock { sent.encoded(apps) }, from: loop)
            case .user(let sent): send(condition.withLock { sent.encoded(apps) }, from: loop)
            case .command(let command): send(condition.withLock { command.encoded(apps) }, from: loop)
            // The hub is told of all.
            case .follow, .unfollow, .end: break
            }
        }
    }

    private func send(_ call: [UInt8], from loop: Int) {
        condition.withLock {
            if let sent = try? SentUserCall(call, apps) {
                var news = MemoryUsers.News()
                users.call(sent.call, from: sent.hub, caller: loop, now: .read(), &news)
                tell(news)
                return condition.signal()
            }
            if let command = try? HubCommand(call, apps) { return told.append(command) }
            guard let sent = try? SentChannelCall(call, apps) else { return }
            var news = ContiguousArray<ChannelNews>()
            let reply = memory.call(sent.call, sent.number, from: sent.hub, now: .read(), &news)
            tell(news, caller: loop)
            if let reply { add(.reply(sent.number, reply), to: loop, at: later()) }
            condition.signal()
        }
    }

    /// Nothing comes any more.
    package func end() {
        condition.withLock {
            hasEnded = true
            condition.signal()
        }
    }

    private func later() -> Instant { Instant.read().advanced(by: .microseconds(Int.random(in: 0..<3_000))) }

    private func tell(_ news: ContiguousArray<ChannelNews>, caller: Int) {
        for item in news {
            lastChange = max(lastChange, later())
            if case .change(let change) = item {
                add(item, to: change.key.shard(of: loops), at: lastChange)
            } else {
                add(item, to: caller, at: lastChange)
            }
        }
    }

    /// In any order, to any loop.
    private func tell(_ news: MemoryUsers.News) {
        for (_, item) in news {
            let loop = Int.random(in: 0..<loops)
            parcels.append(Parcel(at: later(), loop: loop, bytes: item.encoded(apps)))
        }
    }

    private func add(_ news: ChannelNews, to loop: Int, at: Instant) {
        parcels.append(Parcel(at: at, loop: loop, bytes: news.encoded(apps)))
    }

    /// What the hub has told all others.
    package var commands: [HubCommand] { condition.withLock { told } }

    /// Another hub tells all.
    package func tell(_ command: HubCommand) {
        condition.withLock {
            parcels.append(Parcel(at: later(), loop: 0, bytes: command.encoded(apps)))
            condition.signal()
        }
    }

    private func run() {
        condition.lock()
        while !hasEnded {
            let now = Instant.read()
            if let due = memory.nextDue, due <= now {
                var news = ContiguousArray<ChannelNews>()
                _ = memory.call(.due, 0, from: hub, now: now, &news)
                tell(news, caller: 0)
            }
            if let due = users.nextDue, due <= now {
                var news = MemoryUsers.News()
                users.call(.due, from: hub, now: now, &news)
                tell(news)
            }
            let due = parcels.enumerated().filter { $0.element.at <= now }
                .sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
            parcels.removeAll { $0.at <= now }
            for (_, parcel) in due { receivers[parcel.loop]?(.news([parcel.bytes])) }
            let next = min(parcels.map(\.at).min() ?? .max, memory.nextDue ?? .max, users.nextDue ?? .max)
            if next == .max {
                condition.wait()
            } else if next > now {
                let seconds = Double(next.duration(since: now).wholeNanoseconds) / 1e9
                _ = condition.wait(until: Date(timeIntervalSinceNow: max(seconds, 0.000_1)))
            }
        }
        condition.unlock()
    }
}

/// Each test runs with the state in the hub's memory, with one that is elsewhere and slow, and with one in Redis.
package struct SlowStateTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await function()
        guard testCase != nil else { return }
        try await SlowState.$isWanted.withValue(true) { try await function() }
        try await RedisState.$isWanted.withValue(true) { try await function() }
    }
}

extension Trait where Self == SlowStateTrait {
    /// With each version of the state.
    package static var eachState: Self { Self() }
}
