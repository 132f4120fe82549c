import HubEngine
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Courier

/// Random histories of channels with receivers that answer well, badly or too late. In the end each receiver knows the true
/// state, and it never received an event that did not follow from what it knew.
@Suite(.timeLimit(.minutes(15)))
struct ReceiverHistories {
    @Test(arguments: 0..<60) func inTheEndAReceiverKnowsWhatIsSo(_ number: Int) {
        let seed = (Environment.number("CARILLON_SEED") ?? UInt64.random(in: 0...UInt64.max)) &+ UInt64(number)
        var random = SeededRandom(seed: seed)
        let history = Life(using: &random)
        for _ in 0..<1_500 { history.step(using: &random) }
        history.drain(using: &random)
        if let fault = history.fault {
            Issue.record("\(fault); CARILLON_SEED=\(seed &- UInt64(number)), case \(number)")
        }
    }
}

/// A channel's true state, or a receiver's view of it.
private struct Known: Equatable {
    var isOccupied = false
    var members: Set<String> = []
    var count = 0
}

private final class Life {
    private let metrics = CourierMetrics()
    private let world: PlanWorld
    private let names = ["presence-a", "presence-b", "presence-c", "d", "e", "f"]
    private var truth: [String: Known] = [:]
    private var receivers: [String: [String: Known]] = [:]
    /// By URL and channel: the last event that arrived.
    private var last: [String: UInt64] = [:]
    private var underWay: [WebhookRequest] = []
    private var second = 0.0
    private(set) var fault: String?

    init(using random: inout SeededRandom) {
        var limits = CourierLimits()
        limits.requestsMax = Int.random(in: 1...8, using: &random)
        limits.requestsPerEndpoint = Int.random(in: 1...4, using: &random)
        limits.batchEventsMax = Int.random(in: 1...20, using: &random)
        limits.retryFor = .seconds(1_000_000)
        let urls = (0..<Int.random(in: 1...3, using: &random)).map { "http://\($0)/" }
        let endpoints = urls.map {
            WebhookEndpoint(url: $0, kinds: .all, isBatched: Bool.random(using: &random))
        }
        world = PlanWorld(
            limits, metrics, [WebhookApp(id: "1", credentials: signer, endpoints: endpoints)], seed: random.next())
    }

    func step(using random: inout SeededRandom) {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<11:
            guard let name = names.randomElement(using: &random) else { return }
            happen(name, using: &random)
        case 11..<14: underWay += world.depart(at: second)
        case 14..<18: answer(using: &random)
        default: second += Double.random(in: 0...2, using: &random)
        }
    }

    /// Changes the channel, and posts the event.
    private func happen(_ name: String, using random: inout SeededRandom) {
        var known = truth[name, default: Known()]
        defer { truth[name] = known }
        let user = "u\(Int.random(in: 0..<3, using: &random))"
        switch Int.random(in: 0..<8, using: &random) {
        case 0 where known.isOccupied:
            known.count += 1
            post(.subscriptionCount(channel(name), known.count))
        case 1 where known.isOccupied && name.hasPrefix("presence"):
            guard let member = known.members.sorted().randomElement(using: &random) else { return }
            post(
                .clientEvent(
                    channel(name), name: "client-e", data: [], socketID: SocketID(random: 1), userID: member))
        case 2..<6 where known.isOccupied && name.hasPrefix("presence"):
            if known.members.remove(user) != nil {
                post(.memberRemoved(channel(name), userID: user))
            } else {
                known.members.insert(user)
                post(.memberAdded(channel(name), userID: user))
            }
        case 6, 7:
            guard known.members.isEmpty else { return }
            known.isOccupied.toggle()
            post(known.isOccupied ? .channelOccupied(channel(name)) : .channelVacated(channel(name)))
        default: break
        }
    }

    private func post(_ event: WebhookEvent) { world.post(event, of: "1", at: second) }

    private func answer(using random: inout SeededRandom) {
        guard let index = underWay.indices.randomElement(using: &random) else { return }
        let request = underWay.remove(at: index)
        let isGood = Int.random(in: 0..<5, using: &random) > 1
        let failure = DeliveryFailure.allCases.randomElement(using: &random) ?? .timeout
        if isGood || (failure.mayHaveArrived && Bool.random(using: &random)) { arrive(request) }
        _ = world.finish(request, isGood ? .delivered : .failed(failure), at: second)
    }

    private func arrive(_ request: WebhookRequest) {
        let url = request.endpoint.configuration.url
        for event in request.events {
            let parts = String(decoding: event.text, as: UTF8.self).split(
                separator: "\"", omittingEmptySubsequences: false
            ).map(String.init)
            let (kind, name) = (parts[3], parts[7])
            // Repeated, since its answer was lost.
            guard event.number != last[url + name], !isRepeated(event, of: request, url + name) else { continue }
            if event.number < last[url + name] ?? 0 { fault = "\(name) is told of \(kind) too late" }
            last[url + name] = event.number
            var known = receivers[url, default: [:]][name, default: Known()]
            let isSound: Bool
            switch kind {
            case "channel_occupied":
                isSound = !known.isOccupied
                known.isOccupied = true
            case "channel_vacated":
                isSound = known.isOccupied && known.members.isEmpty
                known.isOccupied = false
            case "member_added": isSound = known.isOccupied && known.members.insert(parts[11]).inserted
            case "member_removed": isSound = known.members.remove(parts[11]) != nil
            case "client_event": isSound = known.members.contains(parts[parts.count - 2])
            default:
                let count = Int(parts[parts.count - 1].filter(\.isNumber)) ?? -1
                isSound = count > known.count
                known.count = count
            }
            if !isSound { fault = fault ?? "\(kind) of \(name) to one that knows \(known)" }
            receivers[url, default: [:]][name] = known
        }
    }

    /// All events of a batch whose answer was lost arrive again.
    private func isRepeated(_ event: QueuedEvent, of request: WebhookRequest, _ key: String) -> Bool {
        event.mayBeKnown && event.number <= last[key] ?? 0
    }

    func drain(using random: inout SeededRandom) {
        for _ in 0..<20_000 where world.plan.waiting > 0 {
            underWay += world.depart(at: second)
            guard !underWay.isEmpty else {
                second += 1
                continue
            }
            let request = underWay.removeFirst()
            arrive(request)
            _ = world.finish(request, .delivered, at: second)
        }
        if world.plan.waiting > 0 { fault = fault ?? "\(world.plan.waiting) wait for nothing" }
        let dropped = CourierMetrics.Drop.allCases.reduce(0) { $0 + metrics.droppedCount($1) }
        if dropped > 0 { fault = fault ?? "\(dropped) are dropped" }
        if world.plan.shares.total != 0 || metrics.waiting.level != 0 { fault = fault ?? "bytes are left" }
        for (url, known) in receivers {
            for name in names where known[name] ?? Known() != truth[name] ?? Known() {
                fault = fault ?? "\(url) knows \(known[name] ?? Known()) of \(name), which is \(truth[name] ?? Known())"
            }
        }
    }
}
