import Bytes
import HTTP
import Metrics
import Reactor

// Operations: answers the people and machines that run a hub, on a listener and a thread of its own, so that neither a stuck
// loop nor a crowd of clients holds it up.
//
// `GET /livez`, `GET /readyz` (`Health`) and `GET /metrics` (Prometheus text 0.0.4). No authentication and no secrets: it is
// for a private address. Added routes, the console's, are below a path of their own, and decide who may ask. Lifecycle: it
// starts before the rest of the hub; `stop` ends the thread after the rest. A hub that another one follows accepts no more,
// and what it has accepted is answered. Invariants: bounded in connections, bytes and time (`OperationsLimits`); it never
// waits for another thread.

/// The running listener.
package final class OperationsServer: Sendable {
    enum Order {
        case accept(Bool)
        case end(within: Duration)
        /// From an added route, for one connection; made on this thread.
        case answer(slot: UInt32, generation: UInt32, @Sendable () -> SharedBytes)
    }

    /// The port bound.
    package let port: UInt16
    private let thread: LoopThread
    private let orders: Mailbox<Order>

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - socket: where it listens; it closes when nobody else holds it.
    ///   - sources: the metrics, called on this listener's thread, in this order.
    ///   - routes: answer requests of their own.
    ///   - exchangeTime: the time of a connection from accept to its end.
    package init(
        on socket: ListeningSocket, health: Health, sources: [any MetricSource],
        routes: (any OperationsRoutes)? = nil, exchangeTime: Duration = OperationsLimits.exchangeTime
    ) throws(ReactorError) {
        port = socket.port
        let handle = try LoopHandle()
        let orders = Mailbox<Order>(handle)
        self.orders = orders
        thread = try LoopThread(
            name: "operations", handle: handle,
            filling: { loop throws(ReactorError) in
                let acceptor = try OperationsAcceptor(
                    socket, on: loop, orders, OperationsPages(health: health, sources: sources, routes: routes),
                    exchangeTime: exchangeTime)
                loop.attach(orders) { [unowned acceptor] in acceptor.follow($0) }
                return acceptor
            })
    }

    /// Whether connections are accepted. Those that come meanwhile wait in the kernel's queue, for another hub that has the
    /// socket, too. Those that were accepted before are answered: a health check that fails takes the hub out of a balancer.
    package func accepts(_ accepts: Bool) {
        orders.post(.accept(accepts))
    }

    /// Accepts no more, answers what it has accepted, and ends the thread; after `time` also with connections left.
    package func stop(within time: Duration = OperationsLimits.endTime) {
        orders.post(.end(within: time))
        thread.join()
    }
}

/// Routes that another part adds to the operations listener, such as the console's.
package protocol OperationsRoutes: Sendable {
    /// The longest body of a request to it.
    var bodyBytesMax: Int { get }

    /// Whether the request is for one of them.
    func owns(_ request: ParsedRequest) -> Bool

    /// Answers such a request, now or later, by calling `reply` once, on any thread. Must not block. What `reply`
    /// is given is called on the listener's thread; if it never is, the connection's deadline ends it.
    func answer(
        _ request: ParsedRequest, from peer: PeerAddress,
        _ reply: @escaping @Sendable (@escaping @Sendable () -> SharedBytes) -> Void)
}

/// Answers the requests of the operations listener: health, metrics, and added routes.
struct OperationsPages {
    let health: Health
    let sources: [any MetricSource]
    let routes: (any OperationsRoutes)?

    /// Only requests to added routes may have a body.
    var limits: HTTPLimits {
        var limits = OperationsLimits.http
        limits.bodyBytes = routes?.bodyBytesMax ?? 0
        return limits
    }

    func answer(_ request: ParsedRequest, from peer: PeerAddress) -> SharedBytes {
        guard request.method == .get || request.method == .head else {
            return page(.methodNotAllowed, "Use GET.\n", of: request, allows: true)
        }
        if request.path.equals("/livez") { return page(health.ailment(), of: request) }
        if request.path.equals("/readyz") {
            return page(health.obstacle(), of: request, otherwise: health.readiness())
        }
        guard request.path.equals("/metrics") else {
            let help: StaticString =
                routes == nil
                ? "Here are /livez, /readyz and /metrics.\n" : "Here are /livez, /readyz, /metrics and /console.\n"
            return page(.notFound, help, of: request)
        }
        // A page from elsewhere, open in a browser on this machine, may have a name that leads here. A browser sends a host.
        guard !peer.isLoopback || request.host == nil || request.namesLoopback || request.namesAddress else {
            return page(.forbidden, "From this machine, use http://127.0.0.1.\n", of: request)
        }
        var exposition = Exposition()
        for source in sources { source.append(to: &exposition) }
        var writer = ByteWriter(capacity: 256)
        exposition.bytes.withUnsafeBytes {
            writer.append(
                response: .ok, contentType: Exposition.contentType, keepsAlive: false,
                omitsBody: request.method == .head, body: $0)
        }
        return writer.finish()
    }

    func refusal(_ error: HTTPError) -> SharedBytes {
        var writer = ByteWriter(capacity: 256)
        writer.append(refusal: error)
        return writer.finish()
    }

    private func page(
        _ problem: StaticString?, of request: ParsedRequest, otherwise good: StaticString = "ok\n"
    ) -> SharedBytes {
        problem.map { page(.serviceUnavailable, $0, of: request) } ?? page(.ok, good, of: request)
    }

    private func page(
        _ status: Status, _ body: StaticString, of request: ParsedRequest, allows: Bool = false
    ) -> SharedBytes {
        var writer = ByteWriter(capacity: 256)
        writer.append(
            response: status, contentType: "text/plain; charset=utf-8", keepsAlive: false,
            omitsBody: request.method == .head, body: body.bytes
        ) { writer in
            writer.append(field: "Cache-Control", "no-store")
            if allows { writer.append(field: "Allow", "GET, HEAD") }
        }
        return writer.finish()
    }
}
