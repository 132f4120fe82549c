import HubEngine
import Reactor
import TestSupport

@testable import Courier

/// A plan with the test's clock.
final class PlanWorld {
    var plan: DeliveryPlan

    init(_ limits: CourierLimits, _ metrics: CourierMetrics, _ apps: [WebhookApp], seed: UInt64 = 1) {
        plan = DeliveryPlan(limits, metrics, random: SeededRandom(seed: seed))
        replace(apps, at: 0)
    }

    func replace(_ apps: [WebhookApp], at second: Double) {
        plan.replace(apps, now: .second(second))
    }

    func post(_ event: WebhookEvent, of app: String, at second: Double, _ receipt: WebhookReceipt? = nil) {
        plan.add(event, of: app, postedAt: .second(second), receipt, now: .second(second))
    }

    /// Posts that channels of the app "1" became occupied.
    func post(_ names: [String], at second: Double) {
        for name in names { post(.channelOccupied(channel(name)), of: "1", at: second) }
    }

    /// All requests that are due then.
    func depart(at second: Double) -> [WebhookRequest] {
        var all: [WebhookRequest] = []
        while let next = plan.nextRequest(now: .second(second), milliseconds: UInt64(second * 1_000)) {
            all.append(next)
        }
        return all
    }

    func finish(_ request: WebhookRequest, _ result: DeliveryResult, at second: Double) -> DeliveryPlan.Change? {
        plan.finished(request, result, now: .second(second))
    }
}
