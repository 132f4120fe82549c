// Pushes: the courier's other half. Reminders that are due become requests to Apple, to Google, or to a webhook.
//
// Purpose: the outbox's thread hands over claimed pushes; the pushes' own threads decide (`PushPlan`), build requests and
// judge answers (`APNs`, `FCM`, `PushWebhook`, all without I/O), and libcurl sends: over few shared connections to APNs and
// FCM, on one thread, and over one connection for each request to the webhook, on another.
// Lifecycle: `init` starts the threads; `stop` waits for answers, then joins them. Invariants:
// - Each push that was posted leaves by one outcome, unless its thread ends before its answer: its lease then ends.
// - As many requests are in flight as may be, whatever version of HTTP a provider speaks, and however slow it is; but for
//   the share of a user (`PushTurns`).
// - A redirect is never followed, a proxy of the environment never used, and a certificate always verified.
// - No text, token or id of a push is logged, nor an answer's own words.

import Clock
import Logging
import Outbox
import Pusher
import Reactor

/// How pushes are sent.
package struct PushConfiguration: Sendable {
    /// Apple's service; nil where the hub has no account.
    package var apns: APNsAccount?
    /// Google's service; nil where the hub has no account.
    package var fcm: FCMAccount?
    /// The URL of the operator's own backend; nil where there is none.
    package var webhookURL: String?
    /// Requests in flight to it.
    package var webhookRequestsMax = PushLimits.requestsOfWebhook
    /// What signs requests to it.
    package var webhookCredentials: AppCredentials?
    /// PEM file of the trusted certificates; nil uses the system's.
    package var caFile: String?
    /// The field `User-Agent` of requests.
    package var userAgent = "Carillon"

    /// No provider.
    package init() {}

    /// Whether any push can be sent.
    package var hasProvider: Bool { !providers.isEmpty }

    var providers: [PushPlatform: any PushProvider] {
        var providers: [PushPlatform: any PushProvider] = [:]
        if let apns { providers[.apns] = APNs(apns) }
        if let fcm { providers[.fcm] = FCM(fcm) }
        if let webhookURL, let webhookCredentials {
            providers[.webhook] = webhook(url: webhookURL, webhookCredentials)
        }
        return providers
    }

    func webhook(url: String, _ credentials: AppCredentials) -> PushWebhook {
        PushWebhook(url: url, credentials: credentials, requestsMax: max(1, webhookRequestsMax))
    }
}

/// Sends pushes on threads of its own. Any thread may call it; only `stop` blocks.
package final class PushSender: Sendable {
    /// A thread, and what it is asked.
    private struct Route: Sendable {
        let inbox: PushInbox
        let thread: SystemThread
    }

    private let configuration: PushConfiguration
    /// APNs and FCM, and devices without a provider.
    private let services: Route
    /// Nil where there is none.
    private let webhook: Route?

    /// Starts the threads.
    ///
    /// - Parameter settle: is told what became of pushes, on the sender's threads.
    /// - Throws: `CourierError` if memory or threads run out.
    package init(
        _ configuration: PushConfiguration, metrics: PushMetrics, logger: Logger,
        settle: @escaping @Sendable ([PushOutcome]) -> Void
    ) throws(CourierError) {
        self.configuration = configuration
        func start(
            _ name: String, _ multi: CurlMulti<PushTransfer>, _ isMeant: (PushPlatform) -> Bool
        ) throws(CourierError) -> Route {
            let inbox = PushInbox(multi)
            let providers = configuration.providers.filter { isMeant($0.key) }
            let loop = PushLoop(configuration, providers, inbox, metrics, logger, settle)
            do throws(ReactorError) {
                // `SystemThread` blocks signals, so writing to a closed connection does not end the process.
                return Route(inbox: inbox, thread: try SystemThread(name: name) { loop.run() })
            } catch {
                throw CourierError("\(error)")
            }
        }
        services = try start(
            "pushes",
            CurlMulti(
                connections: PushLimits.connectionsOfServices, ofHost: PushLimits.connectionsOfHost,
                streams: PushLimits.streamsOfConnection)
        ) { $0 != .webhook }
        webhook =
            configuration.providers[.webhook] == nil
            ? nil
            : try start(
                "push webhook", CurlMulti(connections: configuration.webhookRequestsMax)
            ) { $0 == .webhook }
    }

    /// Sends these pushes.
    package func post(_ pushes: [DuePush]) {
        guard let webhook else { return services.inbox.post { $0.pushes += pushes } }
        let split = pushes.filter { $0.platform == .webhook }
        if !split.isEmpty { webhook.inbox.post { $0.pushes += split } }
        if split.count < pushes.count { services.inbox.post { $0.pushes += pushes.filter { $0.platform != .webhook } } }
    }

    /// Signs requests to the webhook by other credentials from now on.
    package func replace(_ credentials: AppCredentials) {
        guard let webhook, let url = configuration.webhookURL else { return }
        webhook.inbox.post { $0.webhook = configuration.webhook(url: url, credentials) }
    }

    /// Gives back what waits, waits for answers for at most `patience`, and ends the threads. Call once.
    package func stop(within patience: Duration) {
        let routes = [services, webhook].compactMap(\.self)
        for route in routes { route.inbox.post { $0.patience = patience } }
        for route in routes { route.thread.join() }
    }
}

/// The mailbox of a thread of pushes. It needs no bound: the outbox claims no more than it may.
final class PushInbox: Sendable {
    struct Contents: Sendable {
        var pushes: [DuePush] = []
        var webhook: PushWebhook?
        /// Set when the hub stops: the time that is left.
        var patience: Duration?
    }

    let multi: CurlMulti<PushTransfer>
    private let contents = Locked(Contents())

    init(_ multi: CurlMulti<PushTransfer>) {
        self.multi = multi
    }

    func post(_ change: (inout Contents) -> Void) {
        contents.withLock(change)
        multi.wake()
    }

    func takeAll() -> Contents {
        contents.withLock { contents in
            let taken = contents
            contents = Contents(patience: taken.patience)
            return taken
        }
    }
}
