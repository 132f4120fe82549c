import CCurl
import Clock
import HubEngine
import Logging
import Reactor

/// The courier thread's work: passes posted events to the plan, and the plan's requests to libcurl.
final class CourierLoop {
    private let configuration: CourierConfiguration
    private let inbox: CourierInbox
    private let metrics: CourierMetrics
    private let logger: Logger
    private var plan: DeliveryPlan
    private var transfers: [ObjectIdentifier: Transfer] = [:]
    private var lingering: DNSLimiter
    /// Set when the hub stops: the deadline.
    private var end: Instant?

    init(
        _ configuration: CourierConfiguration, _ inbox: CourierInbox, _ metrics: CourierMetrics, _ logger: Logger
    ) {
        self.configuration = configuration
        self.inbox = inbox
        self.metrics = metrics
        self.logger = logger
        plan = DeliveryPlan(configuration.limits, metrics, random: SystemRandomNumberGenerator())
        lingering = DNSLimiter(configuration.limits)
    }

    /// Runs until the inbox is stopped and all that waits is delivered or the deadline has passed.
    func run() {
        while true {
            takeInbox()
            depart()
            if let end, plan.underWay == 0 || Instant.read() >= end { break }
            inbox.multi.wait(milliseconds: patience())
            inbox.multi.perform(ended)
        }
        let dropped = plan.abandon(transfers.values.map(\.request))
        for transfer in transfers.values { inbox.multi.remove(transfer) }
        transfers = [:]
        if !dropped.isEmpty { tell(dropped) }
    }

    private func tell(_ dropped: [WebhookKinds: Int]) {
        let kinds = WebhookKinds.names.compactMap { name, kind in dropped[kind].map { (name, "\($0)") } }
        logger.warning(
            "webhooks are dropped: the hub ends before their endpoints have taken them",
            metadata: Logger.Metadata(uniqueKeysWithValues: kinds.map { ($0, .string($1)) }))
    }

    private func takeInbox() {
        let contents = inbox.takeAll()
        let now = Instant.read()
        if let apps = contents.apps { plan.replace(apps, now: now) }
        for posted in contents.events {
            plan.add(posted.event, of: posted.appID, postedAt: posted.at, posted.receipt, now: now)
        }
        if let patience = contents.patience, end == nil {
            end = now.advanced(by: patience)
            plan.stop(now: now)
        }
    }

    private func depart() {
        let now = Instant.read()
        while let request = plan.nextRequest(
            now: now, milliseconds: UInt64(max(0, UnixTime.read().microseconds / 1_000)))
        {
            guard lingering.mayBegin(request.endpoint.app.id, of: plan.appCount, at: now) else {
                finish(request, .failed(.name), startedAt: now)
                continue
            }
            guard let transfer = Transfer(request, configuration, at: now), inbox.multi.add(transfer) else {
                finish(request, .failed(.broken), startedAt: now)
                continue
            }
            transfers[ObjectIdentifier(transfer)] = transfer
        }
    }

    private func ended(_ transfer: Transfer, _ code: CURLcode) {
        let result = transfer.result(code)
        if transfer.wasResolving(code) { lingering.add(transfer.request.endpoint.app.id, at: .read()) }
        inbox.multi.remove(transfer)
        transfers[ObjectIdentifier(transfer)] = nil
        finish(transfer.request, result, startedAt: transfer.startedAt)
    }

    private func finish(_ request: WebhookRequest, _ result: DeliveryResult, startedAt: Instant) {
        let now = Instant.read()
        metrics.request(result, isRetry: request.isRetry, took: now.duration(since: startedAt))
        switch plan.finished(request, result, now: now) {
        case .fails(let app, let origin, let reason):
            logger.warning(
                "a webhook endpoint fails; its events are tried again for \(configuration.limits.retryFor)",
                metadata: [
                    "app": "\(app)", "endpoint": "\(origin)", "reason": "\(reason.rawValue): \(reason.sentence)",
                ])
        case .worksAgain(let app, let origin):
            logger.notice(
                "a webhook endpoint works again", metadata: ["app": "\(app)", "endpoint": "\(origin)"])
        case nil: break
        }
    }

    /// The time until the plan or the deadline needs attention.
    private func patience() -> Int32 {
        let now = Instant.read()
        var wait = Duration.seconds(60)
        if let deadline = plan.nextDeadline { wait = min(wait, deadline.duration(since: now)) }
        if let end { wait = min(wait, end.duration(since: now)) }
        // Rounded up: otherwise a deadline less than a millisecond away would spin.
        return Int32(clamping: wait.millisecondsRoundedUp)
    }
}
