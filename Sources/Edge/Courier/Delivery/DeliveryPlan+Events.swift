import Bytes
import Clock
import HubEngine
import Pusher
import Reactor

/// Adding events to a plan, and dropping those that exceed a bound.
extension DeliveryPlan {
    /// Queues the event for all endpoints of the app that want its kind.
    mutating func add(
        _ event: WebhookEvent, of appID: String, postedAt: Instant, _ receipt: WebhookReceipt? = nil, now: Instant
    ) {
        guard let wanting = apps[appID]?.endpoints.filter({ $0.configuration.kinds.contains(event.kind) }),
            !wanting.isEmpty
        else { return metrics.drop(1, .unwanted) }
        let text = WebhookBody.text(of: event)
        for endpoint in wanting {
            add(event, text, at: endpoint, postedAt: postedAt, receipt)
            schedule(endpoint, now: now)
        }
        nextExpiry = nextExpiry ?? postedAt.advanced(by: limits.retryFor + limits.requestTimeout)
    }

    private mutating func add(
        _ event: WebhookEvent, _ text: [UInt8], at endpoint: Endpoint, postedAt: Instant, _ receipt: WebhookReceipt?
    ) {
        let known = endpoint.lines[event.channel]
        // With a receipt, another hub may have told the reverse before this one got it.
        if receipt == nil, let reverse = event.change.flatMap({ known?.reverse(of: $0) }) {
            take(reverse)
            return metrics.cancelled(2)
        }
        lastNumber += 1
        let line = known ?? DeliveryQueue(endpoint, event.channel)
        let queued = QueuedEvent(lastNumber, line, text, of: event, postedAt: postedAt, receipt)
        guard endpoint.held[queued.kind.index].events.count < limits.queueEventsMax else {
            if let change = event.change { endpoint.lost.add(change, in: event.channel, number: lastNumber) }
            return metrics.drop(1, .full)
        }
        endpoint.lines[line.channel] = line
        endpoint.append(queued)
        account(queued, 1)
        if case .idle = line.state { endpoint.makeReady(line) }
        // May drop this very event. An endpoint with no other event of its kind keeps it.
        while shares.total > limits.queueBytesMax, let spare = shares.largest?.key.held.spare { drop([spare], .full) }
    }

    /// Drops events that waited longer than any retry may take, without a request for each.
    mutating func dropExpired(now: Instant) {
        guard let due = nextExpiry, due <= now, !isStopping else { return }
        let age = limits.retryFor + limits.requestTimeout
        nextExpiry = nil
        for endpoint in apps.values.flatMap(\.endpoints) {
            for kind in 0..<WebhookKinds.count {
                while let first = endpoint.held[kind].events.first(where: { !$0.isUnderWay }) {
                    let expiry = first.postedAt.advanced(by: age)
                    guard expiry <= now else {
                        nextExpiry = min(nextExpiry ?? expiry, expiry)
                        break
                    }
                    drop([first], .expired)
                }
            }
        }
    }
}
