import Bytes
import Clock
import Outbox

/// A push on its way.
final class PushWork {
    let push: DuePush
    /// The number of the credential that its request has.
    var credential = 0
    /// How often it was sent again at once.
    var resends = 0
    /// When it came here.
    let addedAt: Instant

    init(_ push: DuePush, at now: Instant) {
        (self.push, addedAt) = (push, now)
    }
}

/// Decides which requests are made and what becomes of pushes. Performs no I/O, reads no clock.
///
/// Each platform has a lane with room of its own, so that a slow provider holds up no other. In a lane, users take turns.
/// Invariant: each push that was added leaves by exactly one outcome.
///
/// Worst interleavings, each with its test in `PushPlanTests`:
/// - Hundreds of requests are in flight when their credential expires: the first answer renews it, and none renews it
///   again (`oneCredentialIsRenewedOnce`).
/// - A push waits here until its lease has nearly ended: it is given back unsent, since another hub may have it before
///   this one has its answer (`oneThatWaitedTooLongIsGivenBack`).
struct PushPlan {
    /// What to do next.
    enum Step {
        case send(PushWork, PushRequest)
        /// Ask a provider for a credential.
        case ask(PushPlatform, PushRequest)
    }

    /// What operators should know: a provider that fails, or refuses the hub.
    struct Trouble: Hashable {
        let platform: PushPlatform?
        let reason: String
        /// Whether it lasts until somebody acts.
        let isRefusal: Bool
    }

    private struct Lane {
        let platform: PushPlatform
        var provider: (any PushProvider)?
        var turns = PushTurns()
        var isAsking = false
        /// When it was last told about a credential.
        var credentialAt = Instant.min
    }

    private let metrics: PushMetrics
    private var lanes: [Lane]
    private var next = 0
    private var random: any RandomNumberGenerator
    private(set) var isStopping = false
    /// What became of pushes; the caller takes it.
    var outcomes: [PushOutcome] = []
    /// What to log; the caller takes it.
    var troubles: [Trouble] = []

    init(
        _ providers: [PushPlatform: any PushProvider], _ metrics: PushMetrics, random: any RandomNumberGenerator
    ) {
        self.metrics = metrics
        self.random = random
        lanes = PushPlatform.allCases.map { Lane(platform: $0, provider: providers[$0]) }
    }

    /// Requests in flight, those for credentials included.
    var underWay: Int { lanes.reduce(0) { $0 + $1.turns.underWay + ($1.isAsking ? 1 : 0) } }

    /// Whether no push waits for room or for a credential.
    var isIdle: Bool { lanes.allSatisfy { $0.turns.isEmpty } }

    mutating func replace(_ platform: PushPlatform, _ provider: any PushProvider) {
        for index in lanes.indices where lanes[index].platform == platform { lanes[index].provider = provider }
    }

    mutating func add(_ pushes: [DuePush], now: Instant) {
        for push in pushes {
            guard let index = lanes.firstIndex(where: { $0.platform == push.platform }), lanes[index].provider != nil
            else {
                fail(push, PushMetrics.noProvider, isRefusal: true, retrySeconds: PushLimits.refusedPause)
                continue
            }
            if isStopping { giveBack(push) } else { lanes[index].turns.append(PushWork(push, at: now)) }
        }
    }

    // MARK: Requests

    /// The next request to make now; nil if there is none, or no room.
    mutating func nextStep(now: Instant, time: UnixTime) -> Step? {
        for offset in lanes.indices {
            let index = (next + offset) % lanes.count
            guard let step = nextStep(of: index, now: now, time: time) else { continue }
            next = index + 1
            return step
        }
        return nil
    }

    private mutating func nextStep(of index: Int, now: Instant, time: UnixTime) -> Step? {
        while let most = lanes[index].provider?.requestsMax, let place = lanes[index].turns.next(of: most),
            let work = lanes[index].turns.work(at: place)
        {
            let push = work.push
            if push.useEnd <= now {
                take(place, from: index, now: now)
                settle(push, .expired, .expired)
                continue
            }
            if push.leaseEnd <= now.advanced(by: PushLimits.requestTimeout) {
                take(place, from: index, now: now)
                giveBack(push)
                continue
            }
            switch lanes[index].provider?.credential(now: now, time: time) {
            case .use(let text, let number):
                take(place, from: index, now: now)
                guard let request = lanes[index].provider?.request(push, text, now: now, time: time) else {
                    fail(push, PushMetrics.noRequest, isRefusal: false)
                    continue
                }
                work.credential = number
                lanes[index].turns.began(work, at: now)
                return .send(work, request)
            case .ask:
                guard !lanes[index].isAsking else { return nil }
                lanes[index].isAsking = true
                guard let request = lanes[index].provider?.credentialRequest(time: time) else {
                    credentialCame(lanes[index].platform, .failed(.broken), now: now)
                    continue
                }
                return .ask(lanes[index].platform, request)
            case .wait(let end):
                take(place, from: index, now: now)
                // Given back: it may be another hub that has a credential first.
                settle(push, .retry, .retry, retrySeconds: max(1, end.duration(since: now).secondsRoundedUp))
            case nil: return nil
            }
        }
        return nil
    }

    /// Takes out the push at that place, and counts it if the requests of others have made it late.
    private mutating func take(_ place: Int, from index: Int, now: Instant) {
        let waited = min(
            lanes[index].turns.take(at: place, now: now), now.duration(since: lanes[index].credentialAt))
        if waited >= PushLimits.heldUpAfter { metrics.heldUp(lanes[index].platform) }
    }

    // MARK: Answers

    mutating func finished(_ work: PushWork, _ end: PushEnd, now: Instant, time: UnixTime) {
        let push = work.push
        guard let index = lanes.firstIndex(where: { $0.platform == push.platform }) else { return }
        lanes[index].turns.ended(work, at: now)
        let verdict: PushVerdict =
            switch end {
            case .answered(let answer): lanes[index].provider?.verdict(answer) ?? .retry("broken")
            case .failed(let failure): .retry(failure.rawValue)
            }
        switch verdict {
        case .sent:
            metrics.accepted(after: push.start.duration(until: time))
            settle(push, .sent, .sent)
        case .retry(let reason, let seconds):
            // One that names a time is busy, and not in trouble.
            fail(push, reason, isRefusal: false, retrySeconds: backoff(push, seconds), isTrouble: seconds == nil)
        case .dead(let reason):
            fail(push, reason, isRefusal: false)
        case .drop(let reason, let milliseconds):
            metrics.failed(reason)
            let (microseconds, isTooFar) = (milliseconds ?? 0).multipliedReportingOverflow(by: 1_000)
            settle(push, .dead, .dropped, dropBefore: milliseconds == nil || isTooFar ? push.readAt : microseconds)
        case .renew:
            if work.resends < PushLimits.resendsMax,
                lanes[index].provider?.expired(number: work.credential, now: now) == true
            {
                work.resends += 1
                lanes[index].turns.prepend(work, at: now)
            } else {
                fail(push, PushMetrics.renewedTwice, isRefusal: true, retrySeconds: PushLimits.refusedPause)
            }
        case .refused(let reason):
            fail(push, reason, isRefusal: true, retrySeconds: PushLimits.refusedPause)
        }
        if isStopping { giveBackWaiting() }
    }

    /// A request for a credential has ended.
    mutating func credentialCame(_ platform: PushPlatform, _ end: PushEnd, now: Instant) {
        guard let index = lanes.firstIndex(where: { $0.platform == platform }) else { return }
        lanes[index].isAsking = false
        lanes[index].credentialAt = now
        guard let reason = lanes[index].provider?.credentialCame(end, now: now) else {
            return metrics.accessTokenCame()
        }
        metrics.failed(reason)
        troubles.append(
            Trouble(platform: platform, reason: reason, isRefusal: reason == PushMetrics.noCredential))
    }

    // MARK: The end

    /// From now on nothing is begun. What waits goes back to the outbox.
    mutating func stop() {
        isStopping = true
        giveBackWaiting()
    }

    private mutating func giveBackWaiting() {
        for index in lanes.indices {
            while let work = lanes[index].turns.pop() { giveBack(work.push) }
        }
    }

    // MARK: Outcomes

    private mutating func backoff(_ push: DuePush, _ seconds: Int?) -> Int {
        PushBackoff.seconds(attempt: push.attempt, after: seconds, random: &random)
    }

    private mutating func giveBack(_ push: DuePush) {
        settle(push, .retry, .retry, retrySeconds: 0)
    }

    /// Settles a push that was not accepted: as dead, or to be tried again after so many seconds.
    private mutating func fail(
        _ push: DuePush, _ reason: String, isRefusal: Bool, retrySeconds: Int? = nil, isTrouble: Bool = true
    ) {
        metrics.failed(reason)
        if isTrouble { troubles.append(Trouble(platform: push.platform, reason: reason, isRefusal: isRefusal)) }
        settle(
            push, retrySeconds == nil ? .dead : .retry, retrySeconds == nil ? .dead : .retry,
            retrySeconds: retrySeconds)
    }

    private mutating func settle(
        _ push: DuePush, _ result: PushOutcome.Result, _ delivery: PushMetrics.Delivery, retrySeconds: Int? = nil,
        dropBefore: Int64? = nil
    ) {
        metrics.ended(push.platform, delivery)
        outcomes.append(PushOutcome(push, result, retrySeconds: retrySeconds, dropBefore: dropBefore))
    }
}
