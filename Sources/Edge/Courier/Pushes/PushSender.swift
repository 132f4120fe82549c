// Pushes: the courier's other half. Reminders that are due become requests to Apple, to Google, or to a webhook.
//
// Purpose: the outbox's thread hands over claimed pushes; the pushes' own thread decides (`PushPlan`), builds requests and
// judges answers (`APNs`, `FCM`, `PushWebhook`, all without I/O), and libcurl sends over few shared connections.
// Lifecycle: `init` starts the thread; `stop` waits for answers, then joins the thread. Invariants:
// - Each push that was posted leaves by one outcome, unless the thread ends before its answer: its lease then ends.
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
            providers[.webhook] = PushWebhook(url: webhookURL, credentials: webhookCredentials)
        }
        return providers
    }
}

/// Sends pushes on a thread of its own. Any thread may call it; only `stop` blocks.
package final class PushSender: Sendable {
    private let inbox: PushInbox
    private let thread: SystemThread
    private let webhookURL: String?

    /// Starts the thread.
    ///
    /// - Parameter settle: is told what became of pushes, on the sender's thread.
    /// - Throws: `CourierError` if memory or threads run out.
    package init(
        _ configuration: PushConfiguration, metrics: PushMetrics, logger: Logger,
        settle: @escaping @Sendable ([PushOutcome]) -> Void
    ) throws(CourierError) {
        let multi = try CurlMulti<PushTransfer>(
            connections: PushLimits.connectionsMax, ofHost: PushLimits.connectionsOfHost,
            streams: PushLimits.streamsOfConnection)
        inbox = PushInbox(multi)
        webhookURL = configuration.webhookURL
        let loop = PushLoop(configuration, inbox, metrics, logger, settle)
        do throws(ReactorError) {
            // `SystemThread` blocks signals, so writing to a closed connection does not end the process.
            thread = try SystemThread(name: "pushes") { loop.run() }
        } catch {
            throw CourierError("\(error)")
        }
    }

    /// Sends these pushes.
    package func post(_ pushes: [DuePush]) {
        inbox.post { $0.pushes += pushes }
    }

    /// Signs requests to the webhook by other credentials from now on.
    package func replace(_ credentials: AppCredentials) {
        guard let webhookURL else { return }
        inbox.post { $0.webhook = PushWebhook(url: webhookURL, credentials: credentials) }
    }

    /// Gives back what waits, waits for answers for at most `patience`, and ends the thread. Call once.
    package func stop(within patience: Duration) {
        inbox.post { $0.patience = patience }
        thread.join()
    }
}

/// The mailbox of the pushes' thread. It needs no bound: the outbox claims no more than it may.
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
