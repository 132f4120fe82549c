import Clock
import Gateway
import HTTP
import HubEngine
import Pusher
import Reactor
import Sync
import TestHub

@testable import API

/// A gateway with the routes of Pusher's HTTP API over a `ModelDirectory`, and a backend's connection to it.
final class PusherBackend {
    let fixture: GatewayFixture
    let directory: ModelDirectory
    let metrics = APIMetrics()
    /// The hub's clock, in seconds since 1970. The hub was started a second earlier.
    let clock = Locked<Int64>(1_699_999_999)
    var caller = PusherCaller()
    private let client: TestClient

    private struct Routes: HTTPRoutes {
        let pusher: PusherRoutes
        let directory: ModelDirectory

        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            guard let path = PusherPath(request.path) else { return .problem(.notFound, "No path of the API.") }
            return pusher.respond(to: request, path, directory, exchange) { exchange.respond($0) }
        }
    }

    /// - Parameters:
    ///   - apps: beside the caller's app, which has id 1 and these features and limits.
    init(
        ownsDatabase: Bool = false, features: AppFeatures = AppFeatures(), limits: AppLimits = AppLimits(),
        apps: [App] = [], _ change: (inout PusherRoutes.Settings) -> Void = { _ in }
    ) async throws {
        var settings = PusherRoutes.Settings()
        change(&settings)
        let app = App(
            id: "1", credentials: caller.credentials, index: 0, ownsDatabase: ownsDatabase, features: features,
            limits: limits)
        directory = ModelDirectory([app] + apps)
        let clock = clock
        let pusher = PusherRoutes(
            settings, metrics: metrics, now: { UnixTime(seconds: clock.withLock { $0 }) })
        fixture = try await GatewayFixture(routes: Routes(pusher: pusher, directory: directory))
        client = try TestClient(port: fixture.port)
        clock.withLock { $0 += 1 }
    }

    func connection() throws -> TestClient { try TestClient(port: fixture.port) }

    func send(_ request: String) async throws { try await client.sendRaw(request) }

    func answer() async throws -> (status: Int, head: String, body: String) {
        let (head, body) = try await client.response()
        return (Int(head.split(separator: " ")[1]) ?? 0, head, body)
    }

    func ask(_ request: String) async throws -> (status: Int, head: String, body: String) {
        try await send(request)
        return try await answer()
    }
}
