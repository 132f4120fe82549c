import CCurl
import HubEngine
import Testing

@testable import Courier

/// A request made on the test's thread, any number of times.
final class SingleRequest {
    private let world: PlanWorld
    private let request: WebhookRequest
    private let multi: CurlMulti<Transfer>
    private var configuration = CourierConfiguration()

    init(_ url: String, _ change: (inout CourierConfiguration) -> Void = { _ in }) throws {
        world = PlanWorld(CourierLimits(), CourierMetrics(), [WebhookApp([url])])
        world.post(["x"], at: 0)
        request = try #require(world.depart(at: 0).only)
        multi = try CurlMulti(connections: 1)
        configuration.allowsPrivate = true
        change(&configuration)
    }

    func transfer() throws -> Transfer { try #require(Transfer(request, configuration, at: .read())) }

    /// The result that libcurl reports.
    func run(_ transfer: Transfer) throws -> CURLcode {
        try #require(multi.add(transfer))
        defer { multi.remove(transfer) }
        var end: CURLcode?
        while true {
            multi.perform { end = $1 }
            if let end { return end }
            multi.wait(milliseconds: 100)
        }
    }

    func make() throws -> (CURLcode, DeliveryResult) {
        let transfer = try transfer()
        let code = try run(transfer)
        return (code, transfer.result(code))
    }
}
