import Clock
import HubEngine
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Courier

@Suite(.timeLimit(.minutes(15)))
struct DeliveryPlanTests {
    private let metrics = CourierMetrics()

    private func makeWorld(_ limits: CourierLimits, _ apps: [WebhookApp]) -> PlanWorld {
        PlanWorld(limits, metrics, apps)
    }

    private func makeWorld(_ apps: [WebhookApp]) -> PlanWorld { makeWorld(CourierLimits(), apps) }

    @Test func aChannelHasOneRequestUnderWay() throws {
        let world = makeWorld([WebhookApp(["http://a/"])])
        world.post(["x", "x"], at: 1)
        let first = try #require(world.depart(at: 1.5).only)
        #expect(
            String(decoding: first.body, as: UTF8.self)
                == #"{"time_ms":1500,"events":[{"name":"channel_occupied","channel":"x"}]}"#)
        #expect(world.finish(first, .delivered, at: 2) == nil)
        #expect(world.depart(at: 2).count == 1)
        #expect(metrics.deliveredCount == 1)
        #expect(world.plan.waiting == 1)
    }

    @Test func channelsGoSideBySide() {
        var limits = CourierLimits()
        limits.requestsPerEndpoint = 4
        let world = makeWorld(limits, [WebhookApp(["http://a/"])])
        world.post((0..<200).map { "c\($0)" }, at: 1)
        #expect(world.depart(at: 1).count == 4)
    }

    @Test func kindsThatAreNotWantedAreNotSent() {
        let one = WebhookEndpoint(url: "http://a/", kinds: .presence)
        let two = WebhookEndpoint(url: "http://b/", kinds: [.presence, .channelExistence])
        let world = makeWorld([WebhookApp(id: "1", credentials: signer, endpoints: [one, two])])
        world.post(["x"], at: 1)
        #expect(world.depart(at: 1).map(\.endpoint.configuration.url) == ["http://b/"])
        world.post(.cacheMiss(channel("cache-x")), of: "1", at: 1)
        world.post(.cacheMiss(channel("cache-x")), of: "2", at: 1)
        #expect(metrics.droppedCount(.unwanted) == 2)
    }

    /// Who posts an event learns when nothing of it waits any more: each endpoint has it, or it was dropped.
    @Test func aReceiptIsHeldUntilAllHaveIt() throws {
        let world = makeWorld([WebhookApp(["http://a/", "http://b/"])])
        let done = Locked<[String]>([])
        func receipt(_ name: String) -> WebhookReceipt { WebhookReceipt { done.withLock { $0.append(name) } } }
        world.post(.channelOccupied(channel("x")), of: "1", at: 1, receipt("x"))
        var requests = world.depart(at: 1)
        #expect(requests.count == 2 && done.withLock(\.self).isEmpty)
        _ = world.finish(requests.removeFirst(), .delivered, at: 1)
        _ = world.finish(requests.removeFirst(), .failed(.status5xx), at: 1)
        #expect(done.withLock(\.self).isEmpty, "one is to be told again")
        let again = try #require(world.plan.nextDeadline)
        let second = again.duration(since: .second(0)) / .seconds(1)
        requests = world.depart(at: second)
        _ = world.finish(requests.removeFirst(), .delivered, at: second)
        #expect(done.withLock(\.self) == ["x"])
        world.post(.channelOccupied(channel("y")), of: "1", at: second, receipt("y"))
        world.post(.channelVacated(channel("y")), of: "1", at: second, receipt("its end"))
        for _ in 0..<2 { for one in world.depart(at: second) { _ = world.finish(one, .delivered, at: second) } }
        #expect(done.withLock(\.self) == ["x", "y", "its end"])
        world.post(.cacheMiss(channel("cache-x")), of: "2", at: second, receipt("nobody wants it"))
        #expect(done.withLock(\.self).last == "nobody wants it")
    }

    /// What is kept elsewhere, another hub tells: one that ends sends no more of it.
    @Test func aHubThatEndsLeavesWhatIsKeptToOthers() throws {
        let world = makeWorld([WebhookApp(["http://a/"])])
        let done = Locked(0)
        func receipt() -> WebhookReceipt { WebhookReceipt { done.withLock { $0 += 1 } } }
        world.post(.channelOccupied(channel("x")), of: "1", at: 1, receipt())
        let request = try #require(world.depart(at: 1).only)
        world.post(.memberAdded(channel("presence-x"), userID: "u"), of: "1", at: 1, receipt())
        world.post(.channelOccupied(channel("own")), of: "1", at: 1)
        world.post(.channelVacated(channel("x")), of: "1", at: 1, receipt())
        world.plan.stop(now: .second(1))
        #expect(done.withLock(\.self) == 2 && metrics.droppedCount(.stopped) == 0)
        let own = world.depart(at: 1)
        let left = own.flatMap(\.events).map { String(decoding: $0.text, as: UTF8.self) }
        #expect(left.count == 1 && left[0].contains("own"))
        #expect(world.finish(request, .delivered, at: 1) == nil && world.plan.waiting == left.count)
    }

    /// Five minutes of failures: growing pauses, a new body each time, and one last attempt at the end.
    @Test func failuresAreRepeatedForFiveMinutes() throws {
        let world = makeWorld([WebhookApp(["http://a/"])])
        world.post(["x"], at: 0)
        var (attempts, pauses): ([Double], [Double]) = ([], [])
        var second = 0.0
        while world.plan.waiting > 0 {
            let request = try #require(world.depart(at: second).only)
            #expect(
                String(decoding: request.body, as: UTF8.self).hasPrefix("{\"time_ms\":\(UInt64(second * 1_000)),"))
            let signed = request.body.withUnsafeBytes { signer.code(ofText: $0) }
            #expect(request.signature == signed)
            #expect(request.isRetry == !attempts.isEmpty)
            attempts.append(second)
            let change = world.finish(request, .failed(.status5xx), at: second)
            let failed = DeliveryPlan.Change.fails(appID: "1", origin: "http://a", .status5xx)
            #expect(change == (attempts.count == 1 ? failed : nil))
            guard let next = world.plan.nextDeadline else { break }
            let pause = next.duration(since: .second(second)) / .seconds(1)
            #expect(world.depart(at: second + pause * 0.99).isEmpty)
            pauses.append(pause)
            // A little later, since a Double does not hold whole nanoseconds.
            second += pause + 0.000_001
        }
        #expect(attempts.last.map { abs($0 - 300) < 0.001 } == true, "the last when five minutes are over: \(attempts)")
        for (count, pause) in pauses.dropLast().enumerated() {
            let whole = min(60, Double(1 << count))
            #expect(pause >= whole / 2 - 0.001 && pause <= whole + 0.001)
        }
        #expect(metrics.droppedCount(.expired) == 1)
        #expect(metrics.waiting.level == 0)
        #expect(metrics.waitingBytes.level == 0)
        // The next event is tried at once, and its success is reported.
        world.post(["x"], at: 400)
        let next = try #require(world.depart(at: 400).only)
        #expect(!next.isRetry)
        #expect(world.finish(next, .delivered, at: 400) == .worksAgain(appID: "1", origin: "http://a"))
    }

    @Test func anEventThatWaitsBehindAFailingOneKeepsItsTime() throws {
        let world = makeWorld([WebhookApp(["http://a/"])])
        world.post(["x"], at: 0)
        world.post(["x"], at: 200)
        let first = try #require(world.depart(at: 299).only)
        _ = world.finish(first, .failed(.timeout), at: 301)
        #expect(metrics.droppedCount(.expired) == 1)
        #expect(world.plan.waiting == 1)
        let second = try #require(world.depart(at: 302).only)
        #expect(world.finish(second, .delivered, at: 302) != nil)
        #expect(world.plan.waiting == 0)
    }

    @Test func batchesWaitForAWindowOrTheirSize() throws {
        var limits = CourierLimits()
        (limits.batchEventsMax, limits.batchWindow) = (3, .seconds(1))
        let world = makeWorld(limits, [WebhookApp(["http://a/"], isBatched: true)])
        world.post(["x", "y"], at: 0)
        #expect(world.depart(at: 0.9).isEmpty)
        #expect(world.plan.nextDeadline == .second(1))
        let two = try #require(world.depart(at: 1).only)
        #expect(two.events.count == 2)
        world.post(["x", "y", "z", "x"], at: 1)
        _ = world.finish(two, .delivered, at: 1)
        let full = try #require(world.depart(at: 1).only)
        #expect(full.events.count == 3)
        _ = world.finish(full, .delivered, at: 1)
        #expect(world.depart(at: 1).isEmpty, "one is left, whose time is not over")
        world.post(["y", "z"], at: 1.5)
        #expect(world.depart(at: 1.5).map(\.events.count) == [3])
        #expect(world.plan.nextDeadline == nil)
    }

    /// A batch waits for the one before it, but not for one that hangs.
    @Test func aBatchThatHangsKeepsOthersBackForAWhile() throws {
        var limits = CourierLimits()
        (limits.batchWindow, limits.requestsPerEndpoint) = (.zero, 4)
        let world = makeWorld(limits, [WebhookApp(["http://a/"], isBatched: true)])
        world.post(["a"], at: 0)
        #expect(world.depart(at: 0).count == 1)
        for (number, second) in [2.5, 5, 7.5].enumerated() {
            world.post(["b\(number)"], at: second - 2)
            #expect(world.depart(at: second - 0.001).isEmpty)
            #expect(world.plan.nextDeadline == (number < 2 ? .second(second) : nil))
            #expect(world.depart(at: second).count == (number < 2 ? 1 : 0), "the last slot is for what fails")
        }
    }

    @Test func batchesHaveABoundOfBytes() throws {
        var limits = CourierLimits()
        limits.batchWindow = .zero
        let size = WebhookBody.text(of: .channelOccupied(channel("x"))).count + 1
        limits.batchBytesMax = 2 * size
        let two = makeWorld(limits, [WebhookApp(["http://a/"], isBatched: true)])
        two.post(["x", "y", "z"], at: 0)
        #expect(two.depart(at: 0).map(\.events.count) == [2], "without a window they go at once")
        limits.batchWindow = .seconds(1)
        for (bytes, count) in [(2 * size, 2), (2 * size - 1, 1), (1, 1)] {
            limits.batchBytesMax = bytes
            let world = makeWorld(limits, [WebhookApp(["http://a/"], isBatched: true)])
            world.post(["x", "y", "z"], at: 0)
            #expect(world.depart(at: 1).map(\.events.count) == [count])
        }
    }

    @Test func queuesHaveBoundsOfEventsAndBytes() {
        var limits = CourierLimits()
        limits.queueEventsMax = 3
        let few = makeWorld(limits, [WebhookApp(["http://a/", "http://b/"])])
        few.post(["x", "x", "x"], at: 0)
        #expect(metrics.droppedCount(.full) == 0)
        few.post(["y"], at: 0)
        #expect(metrics.droppedCount(.full) == 2, "once for each endpoint")
        #expect(few.plan.waiting == 6)
        let bytes = WebhookBody.text(of: .channelOccupied(channel("x"))).count + CourierLimits.bytesPerEvent
        limits = CourierLimits()
        limits.queueBytesMax = 2 * 2 * bytes
        let small = makeWorld(limits, [WebhookApp(["http://a/", "http://b/"])])
        small.post(["x", "x"], at: 0)
        #expect(small.plan.waiting == 4)
        small.post(["x"], at: 0)
        #expect(small.plan.waiting == 4, "both hold as much")
    }

    @Test func requestsUnderWayHaveABoundAndRepeatedOnesHalfOfIt() {
        var limits = CourierLimits()
        (limits.requestsMax, limits.requestsPerEndpoint) = (4, 1)
        let world = makeWorld(limits, [WebhookApp((0..<9).map { "http://h\($0)/" })])
        world.post(["x"], at: 0)
        let first = world.depart(at: 0)
        #expect(first.count == 4)
        #expect(world.plan.underWay == 4)
        for one in first { _ = world.finish(one, .failed(.timeout), at: 10) }
        // All four are to be retried, and five have not been tried.
        let next = world.depart(at: 20)
        #expect(next.filter(\.isRetry).count == 2)
        #expect(next.filter { !$0.isRetry }.count == 2)
    }

    @Test func replacingKeepsWhatWaitsForThoseThatStay() throws {
        let world = makeWorld([WebhookApp(["http://a/", "http://b/"])])
        world.post(["x", "x"], at: 0)
        let under = world.depart(at: 0)
        #expect(under.count == 2)
        for one in under { _ = world.finish(one, .failed(.connect), at: 0) }
        // b is removed; a has another secret and another field: it is tried again at once.
        let changed = WebhookEndpoint(url: "http://a/", kinds: .all, headers: [.init("X-Token", "t")])
        let rotated = AppCredentials(key: "key", secret: "new")
        world.replace([WebhookApp(id: "1", credentials: rotated, endpoints: [changed])], at: 0)
        #expect(metrics.droppedCount(.removed) == 2)
        let again = try #require(world.depart(at: 0).only)
        #expect(again.endpoint.configuration == changed)
        #expect(again.signature == again.body.withUnsafeBytes { rotated.code(ofText: $0) })
        #expect(again.signature != again.body.withUnsafeBytes { signer.code(ofText: $0) })
        // The app is removed during the request, which may still be delivered; the one queued after it is dropped.
        world.replace([], at: 1)
        #expect(world.plan.waiting == 2)
        _ = world.finish(again, .delivered, at: 1)
        #expect(metrics.deliveredCount == 1)
        #expect(metrics.droppedCount(.removed) == 3)
        #expect(world.plan.waiting == 0)
        #expect(world.plan.nextDeadline == nil)
    }

    @Test func anUnchangedEndpointKeepsItsPause() throws {
        let apps = [WebhookApp(["http://a/"])]
        let world = makeWorld(apps)
        world.post(["x"], at: 0)
        _ = world.finish(try #require(world.depart(at: 0).only), .failed(.connect), at: 0)
        world.replace(apps, at: 0)
        #expect(world.depart(at: 0).isEmpty)
        #expect(world.depart(at: 1).count == 1)
    }

    @Test func theEndWaitsForNoBatchAndCountsTheRest() throws {
        let world = makeWorld([WebhookApp(["http://a/"], isBatched: true), WebhookApp(["http://b/"], id: "2")])
        world.post(["x"], at: 0)
        world.post(.channelOccupied(channel("x")), of: "2", at: 0)
        let failing = try #require(world.depart(at: 0).only)
        _ = world.finish(failing, .failed(.timeout), at: 0)
        world.plan.stop(now: .second(0))
        let last = world.depart(at: 0)
        #expect(Set(last.map(\.endpoint.configuration.url)) == ["http://a/", "http://b/"])
        _ = world.plan.abandon(last)
        #expect(metrics.droppedCount(.stopped) == 2)
        #expect(world.plan.waiting == 0)
    }
}

extension Collection {
    /// The only element; nil if there is none, or several.
    var only: Element? { count == 1 ? first : nil }
}
