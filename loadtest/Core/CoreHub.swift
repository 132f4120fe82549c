import API
import ArgumentParser
import Feed
import Foundation
import Gateway
import HTTP
import HubEngine
import Identity
import Logging
import Pusher
import Reactor

/// Measures the hub's core without PostgreSQL: the gateway as `carillon serve` runs it, with events requested over a second
/// port instead of read from a database.
///
/// Included in its figures: streams and their windows, frames, loops and their messages, write queues and sockets. Not
/// included: the feed's connections, queries and rows.
@main struct CoreHub: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "corehub",
        abstract: "A hub without a database, whose events a second port asks for.",
        discussion: """
            Prints `PORT CONTROL`, both of 127.0.0.1 and of the kernel's choice, and runs until it is killed. A \
            connection to CONTROL says CONTROL and a newline; then each four bytes (big-endian) are the number of a \
            user, at the end of the user's name, of whose one stream an event is made.
            """)

    @Option(help: "Event loops.")
    var loops = 1

    @Option(help: "Bytes of an event's data.")
    var dataBytes = 400

    @Option(help: "Key of the application.")
    var appKey = "carillon-key"

    @Option(help: "Secret of the application.")
    var appSecret = "carillon-secret"

    func validate() throws {
        guard (1...LoopSet.loopsMax).contains(loops) else { throw ValidationError("--loops: 1 to \(LoopSet.loopsMax)") }
        guard (EventData.bytesMin...EventData.bytesMax).contains(dataBytes) else {
            throw ValidationError("--data-bytes: \(EventData.bytesMin) to \(EventData.bytesMax)")
        }
    }

    func run() async throws {
        var configuration = GatewayConfiguration()
        configuration.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0))]
        configuration.loops = loops
        let credentials = AppCredentials(key: appKey, secret: appSecret)
        configuration.apps = [App(id: "1", credentials: credentials, index: 0, ownsDatabase: true)]
        configuration.admission.exemptsLoopback = true
        configuration.admission.strangerRequestsPerSecond = 0
        // No pings during a measurement.
        configuration.timeouts.activity = .seconds(3600)
        let logger = Logger(label: "corehub") { _ in SwiftLogNoOpLogHandler() }
        let verifier = try await TokenVerifier(policy: TokenPolicy(), logger: logger)
        let socket = try ListeningSocket(host: "127.0.0.1", port: 0)
        let data = EventData(bytes: dataBytes)
        let users = HubRoutes.OfUsers(app: configuration.apps[0], verifier: verifier)
        let gateway = try Gateway(
            configuration, verifier: verifier,
            routes: CoreRoutes(
                hub: HubRoutes(pusher: PusherRoutes(), users: users, origins: configuration.origins)),
            startFeed: { sink in try DemandFeed.start(data, socket, sink) }, startStore: nil)
        guard case .tcp(_, let port, _)? = gateway.endpoints.first else { preconditionFailure("it listens on TCP") }
        let line = "\(port) \(socket.port)\n"
        try FileHandle.standardOutput.write(contentsOf: Data(line.utf8))
        while true { try await Task.sleep(for: .seconds(3600)) }
    }
}

/// The hub's routes, and one that does nothing, to measure the cost of a request without its route.
private struct CoreRoutes: HTTPRoutes {
    let hub: HubRoutes

    func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse? {
        if request.path == "/bare" { return HTTPResponse(.ok, body: Array("{}".utf8)) }
        return hub.respond(to: request, exchange, channels: channels)
    }
}
