import HubEngine
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Courier

/// Random histories of a plan: events, answers good and bad, reloads, time. Invariants are checked after each step.
@Suite(.timeLimit(.minutes(15)))
struct DeliveryHistories {
    @Test(arguments: 0..<40) func everyEventIsDeliveredInOrderOrCounted(_ number: Int) {
        let seed = (Environment.number("CARILLON_SEED") ?? UInt64.random(in: 0...UInt64.max)) &+ UInt64(number)
        var random = SeededRandom(seed: seed)
        var history = History(using: &random)
        for _ in 0..<600 {
            history.step(using: &random)
            if let fault = history.fault() {
                Issue.record("\(fault); CARILLON_SEED=\(seed &- UInt64(number)), case \(number)")
                return
            }
        }
        history.drain()
        history.end()
        if let fault = history.fault() { Issue.record("\(fault) at the end; CARILLON_SEED=\(seed &- UInt64(number))") }
        #expect(history.metrics.waiting.level == 0)
        #expect(history.metrics.waitingBytes.level == 0)
    }
}

private struct History {
    let metrics = CourierMetrics()
    private let limits: CourierLimits
    private let world: PlanWorld
    private var second = 0.0
    private var underWay: [WebhookRequest] = []
    /// Expected deliveries, counted once per endpoint of the time; unwanted events count once.
    private var expected = 0
    private var apps: [WebhookApp]
    private var posted = 0
    /// The last number delivered, by endpoint and channel.
    private var delivered: [String: Int] = [:]
    private var disorder: String?

    init(using random: inout SeededRandom) {
        var limits = CourierLimits()
        limits.queueEventsMax = Int.random(in: 1...40, using: &random)
        limits.requestsMax = Int.random(in: 1...8, using: &random)
        limits.requestsPerEndpoint = Int.random(in: 1...3, using: &random)
        limits.batchEventsMax = Int.random(in: 1...5, using: &random)
        limits.batchBytesMax = Int.random(in: 1...400, using: &random)
        limits.queueBytesMax = Int.random(in: 1_000...40_000, using: &random)
        limits.retryFor = .seconds(Int.random(in: 5...60, using: &random))
        self.limits = limits
        apps = Self.apps(using: &random)
        world = PlanWorld(limits, metrics, apps, seed: random.next())
    }

    private static func apps(using random: inout SeededRandom) -> [WebhookApp] {
        (0..<2).map { app in
            let urls = (0..<3).filter { _ in Int.random(in: 0..<4, using: &random) > 0 }
            return WebhookApp(
                id: "\(app)", credentials: signer,
                endpoints: urls.map { url in
                    WebhookEndpoint(
                        url: "http://\(app)-\(url)/",
                        kinds: Bool.random(using: &random) ? .all : [.subscriptionCount, .presence],
                        isBatched: Bool.random(using: &random))
                })
        }
    }

    mutating func step(using random: inout SeededRandom) {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<8:
            posted += 1
            let app = Int.random(in: 0..<2, using: &random)
            let name = channel("c\(Int.random(in: 0..<5, using: &random))")
            let wanting = apps[app].endpoints.count
            expected += max(1, wanting)
            world.post(.subscriptionCount(name, posted), of: "\(app)", at: second)
        case 8..<12:
            underWay += world.depart(at: second)
        case 12..<17:
            guard let index = underWay.indices.randomElement(using: &random) else { return }
            let request = underWay.remove(at: index)
            let failure = DeliveryFailure.allCases.randomElement(using: &random) ?? .timeout
            let isGood = Int.random(in: 0..<5, using: &random) > 1
            if isGood { note(request) }
            _ = world.finish(request, isGood ? .delivered : .failed(failure), at: second)
        case 17, 18:
            second += Double.random(in: 0...4, using: &random)
        default:
            guard Int.random(in: 0..<10, using: &random) == 0 else { return }
            apps = Self.apps(using: &random)
            world.replace(apps, at: second)
            // An endpoint that returns starts anew.
            for key in delivered.keys where !isThere(key) { delivered[key] = nil }
        }
    }

    private func isThere(_ key: String) -> Bool {
        apps.contains { $0.endpoints.contains { key.hasPrefix($0.url) } }
    }

    /// Checks a delivered request: numbers rise in each channel.
    private mutating func note(_ request: WebhookRequest) {
        let text = String(decoding: request.body, as: UTF8.self)
        var found = 0
        for event in text.split(separator: "{").dropFirst() {
            let parts = event.split(separator: "\"")
            guard parts.count > 6, let number = Int(parts[parts.count - 1].filter(\.isNumber)) else { continue }
            found += 1
            let key = request.endpoint.configuration.url + parts[6]
            guard !request.endpoint.isRemoved else { continue }
            if number <= delivered[key] ?? 0 { disorder = "\(number) after \(delivered[key] ?? 0) in \(key)" }
            delivered[key] = number
        }
        if found != request.events.count { disorder = "\(found) events in a request of \(request.events.count)" }
    }

    /// The violated invariant; nil if all hold.
    func fault() -> String? {
        if let disorder { return disorder }
        let dropped = CourierMetrics.Drop.allCases.reduce(0) { $0 + Int(metrics.droppedCount($1)) }
        let known = Int(metrics.deliveredCount) + dropped + world.plan.waiting
        if known != expected { return "\(expected) expected, \(known) accounted for" }
        // Each endpoint may hold one event beyond the bound: the six, and removed ones with one in flight.
        if world.plan.shares.total > limits.queueBytesMax + (6 + limits.requestsMax) * 1_000 {
            return "\(world.plan.shares.total) bytes wait"
        }
        if world.plan.underWay > limits.requestsMax { return "\(world.plan.underWay) under way" }
        let lines = underWay.flatMap(\.lines)
        if Set(lines.map { ObjectIdentifier($0) }).count != lines.count { return "a line has two under way" }
        if underWay.filter(\.isRetry).count > max(1, limits.requestsMax / 2) { return "too many are repeated" }
        if metrics.waiting.level != world.plan.waiting { return "the gauge says \(metrics.waiting.level)" }
        return nil
    }

    /// All that waits is delivered, whatever happened before.
    mutating func drain() {
        for _ in 0..<10_000 where world.plan.waiting > 0 {
            underWay += world.depart(at: second)
            guard !underWay.isEmpty else {
                second += 1
                continue
            }
            let request = underWay.removeFirst()
            note(request)
            _ = world.finish(request, .delivered, at: second)
        }
        if world.plan.waiting > 0 { disorder = "\(world.plan.waiting) wait for nothing" }
    }

    mutating func end() {
        world.plan.stop(now: .second(second))
        underWay += world.depart(at: second)
        _ = world.plan.abandon(underWay)
    }
}
