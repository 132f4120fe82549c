import HubEngine
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Courier

/// Fairness between apps and endpoints, and endpoints that change or fail.
@Suite(.timeLimit(.minutes(15)))
struct FairnessTests {
    private let metrics = CourierMetrics()

    private func urls(_ name: String, _ count: Int) -> [String] { (0..<count).map { "http://\(name)\($0)/" } }

    private func size(of name: String) -> Int {
        WebhookBody.text(of: .channelOccupied(channel(name))).count + CourierLimits.bytesPerEvent
    }

    // MARK: Slots

    private func slowAndQuick() -> PlanWorld {
        var limits = CourierLimits()
        (limits.requestsMax, limits.requestsPerEndpoint) = (8, 1)
        return PlanWorld(
            limits, metrics, [WebhookApp(urls("slow", 20), id: "1"), WebhookApp(urls("quick", 4), id: "2")])
    }

    @Test func anAppLeavesTheLastQuarterOfThePlaces() throws {
        let world = slowAndQuick()
        world.post(["x"], at: 0)
        let slow = world.depart(at: 0)
        #expect(slow.count == 6)
        world.post(.channelOccupied(channel("x")), of: "2", at: 0)
        let quick = world.depart(at: 0)
        #expect(quick.map(\.endpoint.app.id) == ["2"], "of the last two slots each app may have one")
        // After that the app with fewer requests in flight is first.
        _ = world.finish(slow[0], .delivered, at: 1)
        #expect(world.depart(at: 1).isEmpty)
        for index in 1...2 {
            _ = world.finish(slow[index], .delivered, at: 1)
            #expect(world.depart(at: 1).map(\.endpoint.app.id) == ["2"])
        }
        #expect(world.plan.underWay == 6)
    }

    /// Sixteen apps whose endpoints take eight seconds to answer, two whose endpoints never answer, and a quick one, whose
    /// events always leave at once.
    @Test func aQuickAppDoesNotWaitForManySlowOnes() throws {
        let limits = CourierLimits()
        let names = (0..<16).map { "slow\($0)" } + ["dead0", "dead1"]
        let world = PlanWorld(
            limits, metrics, (names + ["quick"]).map { WebhookApp(["http://\($0)/"], id: $0) })
        for name in names {
            for number in 0..<400 { world.post(.channelOccupied(channel("c\(number)")), of: name, at: 0) }
        }
        var underWay: [(request: WebhookRequest, end: Double)] = []
        var most: [String: Int] = [:]
        for tick in 0..<600 {
            let now = Double(tick) / 10
            for one in underWay where one.end <= now {
                let isDead = one.request.endpoint.app.id.hasPrefix("dead")
                _ = world.finish(one.request, isDead ? .failed(.timeout) : .delivered, at: now)
            }
            underWay.removeAll { $0.end <= now }
            world.post(.channelOccupied(channel("x")), of: "quick", at: now)
            let requests = world.depart(at: now)
            let quick = try #require(requests.filter { $0.endpoint.app.id == "quick" }.only, "at \(now)")
            _ = world.finish(quick, .delivered, at: now)
            for one in requests where one.endpoint.app.id != "quick" {
                underWay.append((one, now + (one.endpoint.app.id.hasPrefix("dead") ? 10 : 8)))
            }
            #expect(underWay.count <= limits.requestsMax)
            for (id, count) in Dictionary(grouping: underWay, by: \.request.endpoint.app.id).mapValues(\.count) {
                most[id] = max(most[id] ?? 0, count)
            }
        }
        for name in names { #expect((5...8).contains(most[name] ?? 0), "\(name): \(most[name] ?? 0)") }
    }

    /// With more slow apps than room, each new app finds room in the last quarter.
    @Test func theLastQuarterIsForAppsThatHaveNothing() {
        var limits = CourierLimits()
        (limits.requestsMax, limits.requestsPerEndpoint) = (16, 8)
        let world = PlanWorld(limits, metrics, (0..<16).map { WebhookApp(["http://a\($0)/"], id: "\($0)") })
        func post(_ app: Int) -> Int {
            for number in 0..<20 { world.post(.channelOccupied(channel("c\(number)")), of: "\(app)", at: 0) }
            return world.depart(at: 0).count
        }
        #expect(post(0) == 8, "as many as an endpoint may have")
        #expect(post(1) == 4, "three quarters are taken")
        for app in 2..<6 { #expect(post(app) == 1) }
        #expect(post(6) == 0)
    }

    @Test func anAppWithoutEndpointsHasNoShare() {
        var limits = CourierLimits()
        (limits.requestsMax, limits.requestsPerEndpoint) = (8, 1)
        let world = PlanWorld(limits, metrics, [WebhookApp(urls("a", 20)), WebhookApp([], id: "2")])
        world.post(["x"], at: 0)
        #expect(world.depart(at: 0).count == 8)
    }

    @Test func appsTakeTurns() {
        let world = slowAndQuick()
        world.post(["x"], at: 0)
        world.post(.channelOccupied(channel("x")), of: "2", at: 0)
        #expect(world.depart(at: 0).map(\.endpoint.app.id) == ["1", "2", "1", "2", "1", "2"])
    }

    @Test func whatFailsInOneAppLeavesRoomForWhatFailsInAnother() throws {
        let world = slowAndQuick()
        world.post(["x"], at: 0)
        for one in world.depart(at: 0) { _ = world.finish(one, .failed(.timeout), at: 10) }
        // Retries have room for four, and the last of it is reserved.
        #expect(world.depart(at: 20).filter(\.isRetry).count == 3)
        world.post(.channelOccupied(channel("x")), of: "2", at: 20)
        let quick = try #require(world.depart(at: 20).first { $0.endpoint.app.id == "2" })
        _ = world.finish(quick, .failed(.timeout), at: 20)
        // Retries and new events take turns.
        var repeated = world.depart(at: 22)
        if let one = repeated.first(where: { $0.endpoint.app.id == "2" && !$0.isRetry }) {
            _ = world.finish(one, .delivered, at: 22)
            repeated = world.depart(at: 22)
        }
        #expect(repeated.contains { $0.isRetry && $0.endpoint.app.id == "2" })
    }

    @Test(arguments: [(309.9, 1, 0), (310, 0, 1)])
    func aRequestThatWaitedTooLongForASlotIsDropped(_ second: Double, _ requests: Int, _ dropped: Int) throws {
        var limits = CourierLimits()
        (limits.requestsMax, limits.requestsPerEndpoint) = (1, 1)
        let world = PlanWorld(limits, metrics, [WebhookApp(urls("a", 2))])
        world.post(["x"], at: 0)
        let first = try #require(world.depart(at: 0).only)
        _ = world.finish(first, .delivered, at: second)
        #expect(world.depart(at: second).count == requests)
        #expect(metrics.droppedCount(.expired) == dropped)
        #expect(world.plan.underWay == requests)
        world.post(["x"], at: 400)
        #expect(world.depart(at: 400).count == 1 - requests)
    }

    // MARK: Bytes

    @Test func anEndpointBorrowsWhatOthersLeaveAndGivesItBack() throws {
        var limits = CourierLimits()
        limits.queueBytesMax = 6 * size(of: "x")
        limits.requestsPerEndpoint = 1
        let world = PlanWorld(limits, metrics, [WebhookApp(["http://a/"]), WebhookApp(["http://b/"], id: "2")])
        for _ in 0..<6 { world.post(["x"], at: 0) }
        #expect(metrics.droppedCount(.full) == 0)
        world.post(["x"], at: 0)
        #expect(metrics.droppedCount(.full) == 1, "it is the largest itself")
        let b = { world.post(.channelOccupied(channel("x")), of: "2", at: 0) }
        for count in 1...3 {
            b()
            #expect(metrics.droppedCount(.full) == UInt64(1 + count), "the largest holder loses one")
        }
        #expect(world.plan.shares.total == limits.queueBytesMax)
        let requests = world.depart(at: 0)
        #expect(requests.count == 2)
        #expect(requests.map(\.endpoint.events) == [3, 3])
        b()
        #expect(requests.map(\.endpoint.events) == [3, 3], "each has its half, and loses none to the other")
        #expect(world.plan.shares.total == limits.queueBytesMax)
    }

    @Test func anEventIsTakenWhereTheEndpointHoldsNone() {
        var limits = CourierLimits()
        limits.queueBytesMax = 1
        let world = PlanWorld(limits, metrics, [WebhookApp(urls("a", 100))])
        world.post(["x"], at: 0)
        #expect(world.plan.waiting == 100)
        #expect(metrics.droppedCount(.full) == 0)
        world.post(["x"], at: 0)
        #expect(metrics.droppedCount(.full) == 100)
    }

    @Test func whatIsUnderWayIsNotDroppedForOthers() throws {
        var limits = CourierLimits()
        limits.queueBytesMax = 4 * size(of: "x")
        (limits.batchEventsMax, limits.batchWindow) = (3, .zero)
        let world = PlanWorld(
            limits, metrics, [WebhookApp(["http://a/"], isBatched: true), WebhookApp(urls("b", 4), id: "2")])
        for _ in 0..<4 { world.post(["x"], at: 0) }
        let batch = try #require(world.depart(at: 0).only)
        #expect(batch.events.count == 3)
        world.post(.channelOccupied(channel("x")), of: "2", at: 0)
        #expect(metrics.droppedCount(.full) == 1)
        #expect(world.plan.waiting == 3 + 4)
        _ = world.finish(batch, .delivered, at: 0)
        #expect(metrics.deliveredCount == 3)
        #expect(batch.endpoint.events == 0)
        #expect(
            world.plan.shares[EventHolder(endpoint: batch.endpoint, kind: WebhookKinds.channelExistence.index)] == 0)
    }

    // MARK: Changes

    private func texts(_ request: WebhookRequest) -> [Substring] {
        String(decoding: request.body, as: UTF8.self).split(separator: "\"").filter { $0.hasPrefix("x") }
    }

    /// A request in flight holds back its channels' events, even if the next request has another form.
    @Test func anEndpointThatTurnsToBatchesGetsWhatWaitsInOrder() throws {
        var limits = CourierLimits()
        limits.batchWindow = .seconds(5)
        let world = PlanWorld(limits, metrics, [WebhookApp(["http://a/"])])
        for round in 0..<3 { world.post(["x1", "x2"], at: Double(round) / 10) }
        let under = world.depart(at: 0)
        #expect(under.map(texts) == [["x1"], ["x2"]])
        world.replace([WebhookApp(["http://a/"], isBatched: true)], at: 1)
        world.post(["x3"], at: 1)
        let batch = try #require(world.depart(at: 10).only)
        #expect(texts(batch) == ["x3"], "what is under way keeps its channels' others back")
        _ = world.finish(batch, .failed(.timeout), at: 10)
        _ = world.finish(under[0], .failed(.timeout), at: 10)
        _ = world.finish(under[1], .delivered, at: 10)
        let batches = world.depart(at: 12)
        #expect(batches.map(\.isRetry) == [false, true])
        #expect(texts(batches[0]) == ["x2", "x2"])
        #expect(texts(batches[1]) == ["x1", "x1", "x1", "x3"])
        // And back.
        for batch in batches { _ = world.finish(batch, .failed(.timeout), at: 12) }
        world.replace([WebhookApp(["http://a/"])], at: 12)
        #expect(world.depart(at: 12).map(texts) == [["x1"], ["x2"], ["x3"]])
    }

    @Test func whatIsUnderWayGoesWithItsEndpoint() throws {
        let world = PlanWorld(CourierLimits(), metrics, [WebhookApp(["http://a/"])])
        world.post(["x1", "x2", "x3", "x4", "x1", "x2"], at: 0)
        let under = world.depart(at: 0)
        world.replace([WebhookApp(["http://a/"], isBatched: true)], at: 0)
        world.replace([], at: 0)
        for one in under { _ = world.finish(one, .delivered, at: 0) }
        #expect(world.plan.waiting == 0)
        #expect(metrics.droppedCount(.removed) == UInt64(6 - under.count))
        #expect(world.depart(at: 100).isEmpty)
    }

    /// A line whose events have all expired does not keep the endpoint from being reported as working again.
    @Test func whatHasExpiredTroublesNoLonger() throws {
        let world = PlanWorld(CourierLimits(), metrics, [WebhookApp(["http://a/"])])
        world.post(["x1", "x2"], at: 0)
        let under = world.depart(at: 0)
        #expect(under.count == 2, "two lines")
        #expect(world.finish(under[0], .failed(.timeout), at: 300) != nil)
        #expect(world.finish(under[1], .failed(.timeout), at: 300) == nil)
        #expect(metrics.droppedCount(.expired) == 2)
        world.post(["x2"], at: 400)
        let next = try #require(world.depart(at: 400).only)
        #expect(world.finish(next, .delivered, at: 400) == .worksAgain(appID: "1", origin: "http://a"))
        world.post(["x1"], at: 500)
        let other = try #require(world.depart(at: 500).only)
        #expect(
            world.finish(other, .failed(.timeout), at: 500) == .fails(appID: "1", origin: "http://a", .timeout))
    }

    // MARK: The end

    @Test func theEndTriesOnceMoreAndNoMore() throws {
        let world = PlanWorld(CourierLimits(), metrics, [WebhookApp(["http://a/", "http://b/"])])
        world.post(["x", "x"], at: 0)
        for one in world.depart(at: 0) { _ = world.finish(one, .failed(.timeout), at: 0) }
        world.plan.stop(now: .second(0))
        let last = world.depart(at: 0)
        #expect(last.count == 2)
        _ = world.finish(last[0], .failed(.timeout), at: 0)
        _ = world.finish(last[1], .delivered, at: 0)
        let further = try #require(world.depart(at: 0).only)
        #expect(further.endpoint === last[1].endpoint)
        _ = world.finish(further, .delivered, at: 0)
        #expect(world.plan.underWay == 0)
        #expect(world.depart(at: 1_000).isEmpty)
        #expect(world.plan.nextDeadline == nil)
        _ = world.plan.abandon([])
        #expect(metrics.droppedCount(.stopped) == 2)
        #expect(world.plan.waiting == 0)
    }
}
