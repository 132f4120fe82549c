import CCurl
import Clock
import Logging
import Outbox
import Reactor

/// A thread of pushes: passes claimed pushes to the plan, and the plan's requests to libcurl.
final class PushLoop {
    private let configuration: PushConfiguration
    private let inbox: PushInbox
    private let metrics: PushMetrics
    private let logger: Logger
    private let settle: ([PushOutcome]) -> Void
    private var plan: PushPlan
    private var transfers: [ObjectIdentifier: PushTransfer] = [:]
    /// Those whose request has ended, for the next one. They go when nothing was sent for a while.
    private var spare: [PushTransfer] = []
    private var lastEnd = Instant.read()
    private var told: [PushPlan.Trouble: Instant] = [:]
    /// Set when the hub stops: the deadline.
    private var end: Instant?

    init(
        _ configuration: PushConfiguration, _ providers: [PushPlatform: any PushProvider], _ inbox: PushInbox,
        _ metrics: PushMetrics, _ logger: Logger, _ settle: @escaping ([PushOutcome]) -> Void
    ) {
        self.configuration = configuration
        self.inbox = inbox
        self.metrics = metrics
        self.logger = logger
        self.settle = settle
        plan = PushPlan(providers, metrics, random: SystemRandomNumberGenerator())
    }

    /// Runs until the inbox is stopped, and no request is in flight or the deadline has passed.
    func run() {
        while true {
            takeInbox()
            depart()
            hand()
            if let end, plan.underWay == 0 || Instant.read() >= end { break }
            if isQuiet, Instant.read().duration(since: lastEnd) >= PushLimits.spareKept { spare = [] }
            inbox.multi.wait(milliseconds: patience())
            inbox.multi.perform(ended)
        }
        // Their leases end, and another hub sends them again: whether they have arrived is unknown.
        for transfer in transfers.values { inbox.multi.remove(transfer) }
        transfers = [:]
    }

    private func takeInbox() {
        let contents = inbox.takeAll()
        if let webhook = contents.webhook { plan.replace(.webhook, webhook) }
        plan.add(contents.pushes, now: .read())
        if let patience = contents.patience, end == nil {
            end = Instant.read().advanced(by: patience)
            plan.stop()
        }
    }

    private func depart() {
        let (now, time) = (Instant.read(), UnixTime.read())
        while let step = plan.nextStep(now: now, time: time) {
            let (purpose, request): (PushTransfer.Purpose, PushRequest) =
                switch step {
                case .send(let work, let request): (.push(work), request)
                case .ask(let platform, let request): (.credential(platform), request)
                }
            guard let transfer = spare.popLast() ?? PushTransfer(configuration),
                transfer.begin(request, purpose, at: now), inbox.multi.add(transfer)
            else {
                finish(purpose, .failed(.broken))
                continue
            }
            transfers[ObjectIdentifier(transfer)] = transfer
        }
    }

    private func ended(_ transfer: PushTransfer, _ code: CURLcode) {
        let end = transfer.end(code, time: .read())
        lastEnd = .read()
        metrics.request(took: lastEnd.duration(since: transfer.startedAt))
        inbox.multi.remove(transfer)
        transfers[ObjectIdentifier(transfer)] = nil
        finish(transfer.purpose, end)
        spare.append(transfer)
    }

    private func finish(_ purpose: PushTransfer.Purpose, _ end: PushEnd) {
        switch purpose {
        case .push(let work): plan.finished(work, end, now: .read(), time: .read())
        case .credential(let platform): plan.credentialCame(platform, end, now: .read())
        }
    }

    /// Hands outcomes to the outbox, and troubles to the log.
    private func hand() {
        if !plan.outcomes.isEmpty {
            settle(plan.outcomes)
            plan.outcomes.removeAll(keepingCapacity: true)
        }
        guard !plan.troubles.isEmpty else { return }
        let now = Instant.read()
        for trouble in plan.troubles {
            if let last = told[trouble], now.duration(since: last) < PushLimits.troublePause { continue }
            told[trouble] = now
            logger.log(
                level: trouble.isRefusal ? .error : .warning,
                trouble.isRefusal ? "pushes are refused, and tried again until they expire" : "pushes fail",
                metadata: ["platform": "\(trouble.platform?.rawValue ?? "other")", "reason": "\(trouble.reason)"])
        }
        plan.troubles.removeAll()
    }

    /// Whether there are spare handles, and nothing is in flight.
    private var isQuiet: Bool { transfers.isEmpty && !spare.isEmpty }

    /// The time until something needs attention. Pushes that wait for a credential wait for its request.
    private func patience() -> Int32 {
        guard let end else { return plan.isIdle && !isQuiet ? 60_000 : 1_000 }
        // Rounded up: otherwise a deadline less than a millisecond away would spin.
        return Int32(clamping: min(end.duration(since: .read()), .seconds(1)).millisecondsRoundedUp)
    }
}
