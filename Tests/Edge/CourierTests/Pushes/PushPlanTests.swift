import Clock
import Outbox
import Testing

@testable import Courier

/// A provider whose credentials and answers a test chooses.
private struct TestProvider: PushProvider {
    let requestsMax: Int
    var number = 1
    var asks = false

    mutating func credential(now: Instant, time: UnixTime) -> PushCredential {
        asks ? .ask : .use("c\(number)", number: number)
    }

    func request(_ push: DuePush, _ credential: String, now: Instant, time: UnixTime) -> PushRequest? {
        push.token.isEmpty ? nil : PushRequest(url: push.token, fields: [credential], body: [])
    }

    func verdict(_ answer: PushAnswer) -> PushVerdict { answer.status == 401 ? .renew : verdictOfStatus(answer) }

    mutating func expired(number: Int, now: Instant) -> Bool {
        if number == self.number { self.number += 1 }
        return true
    }

    func credentialRequest(time: UnixTime) -> PushRequest? { PushRequest(url: "token", fields: [], body: []) }

    mutating func credentialCame(_ end: PushEnd, now: Instant) -> String? {
        asks = end != .answered(PushAnswer(status: 200))
        return asks ? "oauth" : nil
    }
}

@Suite struct PushPlanTests {
    private let metrics = PushMetrics()
    private let time = UnixTime(seconds: 1_000)

    private func plan(_ provider: TestProvider = TestProvider(requestsMax: 4)) -> PushPlan {
        PushPlan([.apns: provider], metrics, random: SystemRandomNumberGenerator())
    }

    private func push(
        _ id: Int64, lease: Double = 30, use: Double = 600, token: String = "t", of user: String? = nil
    ) -> DuePush {
        var push = DuePush(id: id, attempt: 1, platform: .apns, token: token, leaseEnd: .second(lease))
        push.useEnd = .second(use)
        push.userID = user ?? "u\(id)"
        push.readAt = 77
        return push
    }

    /// The requests that can be made now.
    private func depart(_ plan: inout PushPlan, at second: Double = 0) -> [PushWork] {
        var works: [PushWork] = []
        while case .send(let work, _)? = plan.nextStep(now: .second(second), time: time) { works.append(work) }
        return works
    }

    private func answer(_ plan: inout PushPlan, _ work: PushWork, _ status: Int, retryAfter: Int? = nil) {
        let answer = PushAnswer(status: status, retryAfter: retryAfter)
        plan.finished(work, .answered(answer), now: .second(1), time: time)
    }

    @Test func aLaneHasRoomForSoMany() throws {
        var plan = plan()
        plan.add((1...6).map { push($0) }, now: .second(0))
        let works = depart(&plan)
        #expect(works.map(\.push.id) == [1, 2, 3, 4] && plan.underWay == 4)
        answer(&plan, works[1], 200)
        expect(depart(&plan).map(\.push.id) == [5])
        #expect(plan.outcomes == [PushOutcome(push(2), .sent)])
        #expect(metrics.count(.apns, .sent) == 1)
    }

    @Test func onesThatOthersMadeLateAreCounted() {
        var plan = plan()
        plan.add((1...6).map { push($0, of: "hangs") }, now: .second(0))
        plan.add((7...9).map { push($0) }, now: .second(0))
        let works = depart(&plan)
        #expect(works.map(\.push.id) == [1, 7, 8, 9])
        plan.add([push(10), push(11)], now: .second(1))
        plan.finished(works[1], .answered(PushAnswer(status: 200)), now: .second(1.5), time: time)
        expect(depart(&plan, at: 1.5).map(\.push.id) == [10] && metrics.heldUpCount(.apns) == 0)
        plan.finished(works[0], .failed(.timeout), now: .second(10), time: time)
        plan.finished(works[2], .answered(PushAnswer(status: 200)), now: .second(10), time: time)
        // The first of them waited for its own user's.
        expect(depart(&plan, at: 10).map(\.push.id) == [2, 11] && metrics.heldUpCount(.apns) == 1)
    }

    @Test func eachAnswerHasItsOutcome() {
        var plan = plan(TestProvider(requestsMax: 10))
        plan.add((1...5).map { push($0) }, now: .second(0))
        let works = depart(&plan)
        answer(&plan, works[0], 400)
        answer(&plan, works[1], 404)
        answer(&plan, works[2], 503, retryAfter: 20)
        plan.finished(works[3], .failed(.timeout), now: .second(1), time: time)
        answer(&plan, works[4], 200)
        #expect(plan.outcomes.map(\.result) == [.dead, .retry, .retry, .retry, .sent])
        #expect(plan.outcomes[1].retrySeconds == PushLimits.refusedPause)
        #expect((20...22).contains(plan.outcomes[2].retrySeconds ?? 0) && plan.outcomes[3].retrySeconds == 1)
        #expect(plan.troubles.map(\.isRefusal) == [false, true, false])
        #expect(metrics.failureCount("timeout") == 1 && metrics.failureCount("4xx") == 2)
    }

    @Test func oneCredentialIsRenewedOnce() {
        var plan = plan(TestProvider(requestsMax: 100))
        plan.add((1...50).map { push($0) }, now: .second(0))
        let works = depart(&plan)
        #expect(works.count == 50)
        for work in works { answer(&plan, work, 401) }
        let again = depart(&plan)
        #expect(again.count == 50 && again.allSatisfy { $0.credential == 2 } && plan.outcomes.isEmpty)
        // Refused with the new one, too: it is the operator's to mend.
        for work in again { answer(&plan, work, 401) }
        expect(depart(&plan).isEmpty && plan.outcomes.count == 50)
        #expect(plan.outcomes.allSatisfy { $0.result == .retry && $0.retrySeconds == PushLimits.refusedPause })
    }

    @Test func oneThatWaitedTooLongIsGivenBack() {
        var plan = plan()
        plan.add([push(1, lease: 30), push(2, lease: 50)], now: .second(0))
        let works = depart(&plan, at: 20.5)
        #expect(works.map(\.push.id) == [2])
        #expect(plan.outcomes == [PushOutcome(push(1), .retry, retrySeconds: 0)])
    }

    @Test func oneOfNoUseIsNotSent() {
        var plan = plan()
        plan.add([push(1, use: 5), push(2, token: ""), push(3)], now: .second(0))
        expect(depart(&plan, at: 5).map(\.push.id) == [3])
        #expect(plan.outcomes.map(\.result) == [.expired, .dead])
        #expect(metrics.failureCount(PushMetrics.noRequest) == 1)
    }

    @Test func devicesOfAnotherPlatformWaitForAProvider() {
        var plan = plan()
        var other = push(1)
        other.platform = .fcm
        var unknown = push(2)
        unknown.platform = nil
        plan.add([other, unknown], now: .second(0))
        expect(depart(&plan).isEmpty)
        #expect(plan.outcomes.map(\.result) == [.retry, .retry] && plan.troubles.allSatisfy(\.isRefusal))
    }

    @Test func aCredentialIsAskedForOnce() {
        var plan = plan(TestProvider(requestsMax: 4, asks: true))
        plan.add((1...3).map { push($0) }, now: .second(0))
        guard case .ask(.apns, let request)? = plan.nextStep(now: .second(0), time: time) else {
            Issue.record("it does not ask")
            return
        }
        #expect(request.url == "token" && plan.underWay == 1)
        expect(depart(&plan).isEmpty && !plan.isIdle)
        plan.credentialCame(.apns, .answered(PushAnswer(status: 200)), now: .second(0))
        expect(depart(&plan).count == 3)
    }

    @Test func theEndGivesBackAllThatWaits() {
        var plan = plan(TestProvider(requestsMax: 2))
        plan.add((1...5).map { push($0) }, now: .second(0))
        let works = depart(&plan)
        plan.stop()
        #expect(plan.outcomes.map(\.id) == [3, 4, 5] && plan.outcomes.allSatisfy { $0.retrySeconds == 0 })
        answer(&plan, works[0], 401)
        plan.add([push(6)], now: .second(0))
        expect(depart(&plan).isEmpty && plan.outcomes.map(\.id) == [3, 4, 5, 1, 6])
        answer(&plan, works[1], 200)
        #expect(plan.underWay == 0 && plan.outcomes.last?.result == .sent)
    }

    @Test func dropsTellWhenTheTokenWasRead() {
        var plan = PushPlan(
            [.apns: PushWebhook(url: "u", credentials: signer)], metrics, random: SystemRandomNumberGenerator())
        plan.add([push(1)], now: .second(0))
        for work in depart(&plan) { answer(&plan, work, 410) }
        #expect(plan.outcomes == [PushOutcome(push(1), .dead, dropBefore: 77)])
        #expect(metrics.count(.apns, .dropped) == 1)
    }
}
