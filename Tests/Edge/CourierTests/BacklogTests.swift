import Bytes
import HubEngine
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Courier

/// An endpoint's backlog, and new events.
@Suite(.timeLimit(.minutes(15)))
struct BacklogTests {
    private let metrics = CourierMetrics()

    private func world(_ limits: CourierLimits = CourierLimits(), isBatched: Bool = false) -> PlanWorld {
        PlanWorld(limits, metrics, [WebhookApp(["http://a/"], isBatched: isBatched)])
    }

    private func names(_ requests: [WebhookRequest]) -> [String] {
        requests.flatMap { $0.lines.map(\.channel.string) }
    }

    /// Simulates the endpoint from `from` to `to`, in steps of 50 ms: `answer` gives each request's result and its duration
    /// in seconds. Returns when each channel was told, and the numbers of requests and retries.
    private func live(
        _ world: PlanWorld, from: Double, to: Double, _ underWay: inout [(WebhookRequest, end: Double, DeliveryResult)],
        _ answer: (WebhookRequest, Double) -> (DeliveryResult, Double)
    ) -> (told: [String: Double], requests: Int, repeats: Int) {
        var (told, requests, repeats): ([String: Double], Int, Int) = ([:], 0, 0)
        for tick in 0..<Int(((to - from) * 20).rounded()) {
            let now = from + Double(tick) / 20
            for (request, end, result) in underWay where end <= now {
                if result == .delivered { for name in names([request]) { told[name] = told[name] ?? now } }
                _ = world.finish(request, result, at: now)
            }
            underWay.removeAll { $0.end <= now }
            for request in world.depart(at: now) {
                requests += 1
                repeats += request.isRetry ? 1 : 0
                let (result, time) = answer(request, now)
                underWay.append((request, now + time, result))
            }
        }
        return (told, requests, repeats)
    }

    // MARK: New events first

    /// A receiver recovers after nobody could reach it: the next event of another channel arrives at once, and then the
    /// whole backlog without another pause.
    @Test(arguments: [false, true]) func whatIsNewGoesFirstAndTheBacklogFollowsAtOnce(_ isBatched: Bool) throws {
        var limits = CourierLimits()
        limits.batchWindow = .zero
        let world = world(limits, isBatched: isBatched)
        for number in 0..<200 { world.post(["old\(number)", "old\(number)"], at: 0) }
        var underWay: [(WebhookRequest, end: Double, DeliveryResult)] = []
        let down = live(world, from: 0, to: 60, &underWay) { _, _ in (.failed(.connect), 0.05) }
        #expect(down.repeats <= 61, "it is asked little: \(down.repeats)")
        for one in underWay { _ = world.finish(one.0, one.2, at: 60) }
        world.post(["new"], at: 60.01)
        let first = world.depart(at: 60.01)
        #expect(first.map(names(_:)).contains(["new"]))
        for one in first { _ = world.finish(one, .delivered, at: 60.01) }
        for _ in 0..<1_000 where world.plan.waiting > 0 {
            for one in world.depart(at: 60.01) { _ = world.finish(one, .delivered, at: 60.01) }
        }
        #expect(world.plan.waiting == 0 && metrics.deliveredCount == 401)
        #expect(world.plan.nextDeadline == nil)
    }

    private func names(_ request: WebhookRequest) -> [String] { names([request]) }

    /// A receiver that accepted connections without answering, with all its room in flight, recovers. The hanging requests
    /// still hang, but a new event waits neither for them nor for thousands of untried events.
    @Test(arguments: [false, true]) func whatIsNewWaitsForNoBacklog(_ isBatched: Bool) throws {
        let world = world(isBatched: isBatched)
        var underWay: [(WebhookRequest, end: Double, DeliveryResult)] = []
        for second in 0..<100 {
            world.post((0..<30).map { "old\(second)-\($0)" }, at: Double(second))
            _ = live(world, from: Double(second), to: Double(second + 1), &underWay) { _, _ in (.failed(.timeout), 10) }
        }
        #expect(underWay.count <= 8)
        world.post(["new"], at: 100)
        let back = live(world, from: 100, to: 140, &underWay) { _, _ in (.delivered, 0.05) }
        let told = try #require(back.told["new"])
        #expect(told <= (isBatched ? 102 : 101.5), "\(told)")
        #expect(world.plan.waiting == 0, "and all the rest soon: \(world.plan.waiting)")
    }

    @Test func aChannelsOwnOrderIsKept() throws {
        let world = world()
        for number in 0..<5 { world.post(.subscriptionCount(channel("x"), number), of: "1", at: Double(number)) }
        var told: [String] = []
        var second = 5.0
        var requests = 0
        for _ in 0..<1_000 where world.plan.waiting > 0 {
            for one in world.depart(at: second) {
                requests += 1
                if requests % 3 == 0 { told += one.events.map { String(decoding: $0.text, as: UTF8.self) } }
                _ = world.finish(one, requests % 3 == 0 ? .delivered : .failed(.status5xx), at: second)
            }
            second += 1
        }
        #expect(told.compactMap { $0.split(separator: ":").last?.first } == ["0", "1", "2", "3", "4"])
    }

    /// Each success of others allows an early retry, but only one per pause of its own.
    @Test func whatIsRefusedAmongOthersIsNotRepeatedWithEach() throws {
        let world = world()
        world.post(["refused"], at: 0)
        var underWay: [(WebhookRequest, end: Double, DeliveryResult)] = []
        var attempts = 0
        for second in 0..<60 {
            for tenth in 0..<10 {
                let now = Double(second) + Double(tenth) / 10
                world.post(["x\(second)-\(tenth)"], at: now)
                let part = live(world, from: now, to: now + 0.1, &underWay) { request, _ in
                    let isRefused = names(request) == ["refused"]
                    attempts += isRefused ? 1 : 0
                    return (isRefused ? .failed(.status5xx) : .delivered, 0.05)
                }
                #expect(part.repeats <= 1)
            }
        }
        #expect((5...15).contains(attempts), "\(attempts)")
        #expect(metrics.deliveredCount >= 599)
    }

    /// A failing endpoint is not asked once per event, and expired events are dropped all the same.
    @Test func whatIsTooOldGoesWithoutARequest() throws {
        let world = world()
        world.post((0..<2_000).map { "x\($0)" }, at: 0)
        var underWay: [(WebhookRequest, end: Double, DeliveryResult)] = []
        let down = live(world, from: 0, to: 311, &underWay) { _, _ in (.failed(.connect), 0.05) }
        #expect(down.repeats <= 312, "\(down.repeats)")
        #expect(metrics.droppedCount(.expired) == 2_000 && world.plan.waiting == 0)
        #expect(metrics.waiting.level == 0 && metrics.waitingBytes.level == 0)
    }

    // MARK: Kinds

    private func occupied(_ name: String) -> WebhookEvent { .channelOccupied(channel(name)) }
    private func vacated(_ name: String) -> WebhookEvent { .channelVacated(channel(name)) }
    private func added(_ name: String, _ user: String) -> WebhookEvent { .memberAdded(channel(name), userID: user) }
    private func removed(_ name: String, _ user: String) -> WebhookEvent { .memberRemoved(channel(name), userID: user) }

    /// A public channel may get thousands of events from anybody.
    @Test(arguments: [false, true]) func manyEventsOfOneKindDelayNoneOfAnother(_ isBatched: Bool) throws {
        let world = world(isBatched: isBatched)
        world.post((0..<9_000).map { "flood\($0)" }, at: 0)
        let under = world.depart(at: 1)
        world.post(occupied("presence-x"), of: "1", at: 1)
        world.post(added("presence-x", "7"), of: "1", at: 1)
        world.post(
            .clientEvent(channel("private-y"), name: "client-e", data: [], socketID: SocketID(random: 1), userID: nil),
            of: "1", at: 1)
        // The first free slot, and the few after it.
        var told: [String] = []
        var pending = under
        for _ in 0..<(isBatched ? 1 : 6) {
            _ = world.finish(pending.removeFirst(), .delivered, at: 1)
            let next = world.depart(at: 2)
            told += next.flatMap(\.events).map { String(decoding: $0.text, as: UTF8.self) }.filter {
                $0.contains("presence-x") || $0.contains("private-y")
            }
            pending = next + pending
        }
        #expect(told.count == 3 && told.contains { $0.contains("client_event") }, "\(told)")
        let own = told.filter { $0.contains("presence-x") }
        #expect(own.count == 2 && own[0].contains("channel_occupied") && own[1].contains("member_added"))
    }

    /// At the bound of one kind, and one past it: other kinds keep theirs.
    @Test func eachKindHasItsRoom() throws {
        var limits = CourierLimits()
        limits.queueEventsMax = 3
        let few = world(limits)
        few.post(["a", "b", "c", "d"], at: 0)
        #expect(metrics.droppedCount(.full) == 1)
        for user in ["1", "2", "3"] { few.post(added("presence-x", user), of: "1", at: 0) }
        #expect(metrics.droppedCount(.full) == 1 && few.plan.waiting == 6)
        few.post(added("presence-x", "4"), of: "1", at: 0)
        #expect(metrics.droppedCount(.full) == 2)
        // In bytes, the kind that holds most loses its last events, and other kinds lose none.
        let size = WebhookBody.text(of: occupied("a")).count + CourierLimits.bytesPerEvent
        limits = CourierLimits()
        limits.queueBytesMax = 10 * size
        let small = world(limits)
        small.post((0..<10).map { "\($0)" }, at: 0)
        #expect(metrics.droppedCount(.full) == 2)
        for user in ["1", "2", "3"] { small.post(added("presence-x", user), of: "1", at: 0) }
        let held = try #require(small.plan.apps["1"]?.endpoints.only?.held)
        #expect(held[WebhookKinds.presence.index].events.count == 3)
        #expect(
            held[WebhookKinds.channelExistence.index].events.elements.map(\.line.channel.string)
                == (0..<6).map { "\($0)" })
        #expect(metrics.droppedCount(.full) == 6 && small.plan.shares.total <= limits.queueBytesMax)
    }

    // MARK: Pairs

    private func waiting(_ world: PlanWorld, _ name: String) -> [String] {
        let line = world.plan.apps["1"]?.endpoints.only?.lines[channel(name)]
        return line?.queue.elements.map {
            String(decoding: $0.text, as: UTF8.self).split(separator: "\"")[3].description
        } ?? []
    }

    @Test func whatIsUndoneWhileItWaitsIsNotTold() throws {
        let world = world()
        for number in 0..<10_000 {
            world.post(occupied("x\(number)"), of: "1", at: 0)
            world.post(vacated("x\(number)"), of: "1", at: 0)
        }
        #expect(world.plan.waiting == 0 && metrics.cancelledCount == 20_000 && metrics.droppedCount(.full) == 0)
        #expect(world.depart(at: 0).isEmpty)
        for event in [
            occupied("presence-x"), added("presence-x", "a"), added("presence-x", "b"), removed("presence-x", "a"),
            .subscriptionCount(channel("presence-x"), 1),
        ] { world.post(event, of: "1", at: 0) }
        #expect(waiting(world, "presence-x") == ["channel_occupied", "member_added", "subscription_count"])
        world.post(removed("presence-x", "b"), of: "1", at: 0)
        world.post(vacated("presence-x"), of: "1", at: 0)
        #expect(waiting(world, "presence-x") == ["subscription_count"])
        // The reverse order: the state is again as the backend was told.
        world.post(vacated("y"), of: "1", at: 0)
        world.post(occupied("y"), of: "1", at: 0)
        #expect(waiting(world, "y") == [])
        // User ids are compared by their bytes.
        world.post(added("presence-z", "caf\u{E9}"), of: "1", at: 0)
        world.post(removed("presence-z", "cafe\u{301}"), of: "1", at: 0)
        #expect(waiting(world, "presence-z").count == 2)
    }

    /// A dropped event may have been true, so a later event is sent even if its reverse still waits.
    @Test func whatWasLostIsToldAgain() throws {
        let world = world()
        world.post(occupied("x"), of: "1", at: 0)
        // The receiver is down until the event expires.
        let age = 400.0
        for second in stride(from: 0, through: age, by: 1) {
            for one in world.depart(at: second) { _ = world.finish(one, .failed(.connect), at: second) }
        }
        #expect(waiting(world, "x") == [] && metrics.droppedCount(.expired) == 1)
        world.post(vacated("x"), of: "1", at: age)
        world.post(occupied("x"), of: "1", at: age)
        #expect(waiting(world, "x") == ["channel_vacated", "channel_occupied"], "what it believes is not known")
        world.post(occupied("y"), of: "1", at: age)
        world.post(vacated("y"), of: "1", at: age)
        #expect(waiting(world, "y") == [], "of others all is known")
        // Once these are delivered, its state is known again.
        for second in [age + 2, age + 3] {
            for one in world.depart(at: second) { _ = world.finish(one, .delivered, at: second) }
        }
        #expect(waiting(world, "x") == [] && metrics.deliveredCount == 2)
        world.post(vacated("x"), of: "1", at: age + 4)
        world.post(occupied("x"), of: "1", at: age + 4)
        #expect(waiting(world, "x") == [])
    }

    private func change(_ subject: String? = nil) -> WebhookChange {
        WebhookChange(subject: subject.map { TextKey("user", $0) } ?? WebhookChange.channel, isBeginning: true)
    }

    /// An event queued before the lost one may be delivered after the loss.
    @Test func anEarlierEventSettlesNothing() {
        var lost = LostChanges()
        lost.add(change(), in: channel("x"), number: 5)
        lost.told(change(), in: channel("x"), number: 4)
        #expect(!lost.isSure(of: channel("x")) && lost.isSure(of: channel("y")))
        lost.told(change("u"), in: channel("x"), number: 6)
        #expect(!lost.isSure(of: channel("x")), "of a user, not of the channel")
        lost.told(change(), in: channel("x"), number: 6)
        #expect(lost.isSure(of: channel("x")))
        // A user's state is settled by the user's own events and by the channel's.
        for user in ["u", "v"] { lost.add(change(user), in: channel("p"), number: 7) }
        lost.told(change("u"), in: channel("p"), number: 8)
        #expect(!lost.isSure(of: channel("p")))
        lost.told(change(), in: channel("p"), number: 9)
        #expect(lost.isSure(of: channel("p")))
    }

    /// Beyond the bound any channel may have lost a change, until all that waits is delivered.
    @Test func onlySoManyLossesAreRemembered() {
        var lost = LostChanges()
        for number in 0..<CourierLimits.lostChangesMax { lost.add(change(), in: channel("c\(number)"), number: 1) }
        lost.add(change(), in: channel("c0"), number: 2)
        #expect(lost.isSure(of: channel("x")) && !lost.isSure(of: channel("c0")))
        lost.add(change("u"), in: channel("c0"), number: 2)
        #expect(!lost.isSure(of: channel("x")))
        lost.allTold()
        #expect(lost.isSure(of: channel("x")))
        lost.add(change(), in: channel("x"), number: 3)
        #expect(!lost.isSure(of: channel("x")) && lost.isSure(of: channel("y")))
    }

    @Test(arguments: [(DeliveryFailure.timeout, 2), (.broken, 2), (.status5xx, 2), (.connect, 0), (.name, 0)])
    func whatMayHaveArrivedIsNotTakenBack(_ failure: DeliveryFailure, _ left: Int) throws {
        let world = world()
        world.post(occupied("x"), of: "1", at: 0)
        let first = try #require(world.depart(at: 0).only)
        world.post(vacated("x"), of: "1", at: 0)
        #expect(waiting(world, "x") == ["channel_occupied", "channel_vacated"], "one is under way")
        world.post(occupied("x"), of: "1", at: 0)
        #expect(waiting(world, "x") == ["channel_occupied"], "the other two are not")
        _ = world.finish(first, .failed(failure), at: 0)
        world.post(vacated("x"), of: "1", at: 0)
        #expect(waiting(world, "x").count == left)
        world.post(occupied("x"), of: "1", at: 0)
        for one in world.depart(at: 2) { _ = world.finish(one, .delivered, at: 2) }
        #expect(world.plan.waiting == 0 && metrics.deliveredCount == 1)
    }

    /// What hubs share is told by another hub when one ends, and that one may have told it: here too it may have arrived.
    @Test func whatAnotherHubMayHaveToldIsNotTakenBack() {
        let world = world()
        world.post(removed("presence-x", "a"), of: "1", at: 0, WebhookReceipt {})
        world.post(added("presence-x", "a"), of: "1", at: 0, WebhookReceipt {})
        #expect(waiting(world, "presence-x") == ["member_removed", "member_added"])
        #expect(metrics.cancelledCount == 0)
    }

    /// A client event or a cache miss makes sense only after the events before it.
    @Test func eventsThatOthersDependOnAreNotCancelled() throws {
        let world = world()
        let said = WebhookEvent.clientEvent(
            channel("presence-x"), name: "client-e", data: [], socketID: SocketID(random: 1), userID: "a")
        let events = [
            occupied("presence-x"), added("presence-x", "a"), said, removed("presence-x", "a"), vacated("presence-x"),
        ]
        for event in events { world.post(event, of: "1", at: 0) }
        #expect(waiting(world, "presence-x").count == 5)
        // Events after it are cancelled.
        world.post(occupied("presence-x"), of: "1", at: 0)
        world.post(added("presence-x", "a"), of: "1", at: 0)
        #expect(waiting(world, "presence-x") == ["channel_occupied", "member_added", "client_event"])
    }
}
