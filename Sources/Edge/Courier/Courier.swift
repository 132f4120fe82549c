import Clock
import Glibc
import HubEngine
import Logging
import Reactor

// Courier: outgoing webhooks. Channel events become signed requests to the endpoints of their apps.
//
// Purpose: a loop hands over an event under one lock and continues; the courier's thread decides (`DeliveryPlan`), and
// libcurl sends (`CurlMulti`, `Transfer`). Lifecycle: `init` starts the thread; `replace` changes the endpoints while it
// runs; `stop` allows some time for what waits, then joins the thread. Invariants:
// - Events of one channel reach an endpoint in order, one request after the other.
// - The bytes sent are the bytes signed. Each request, including a retry, carries its own time.
// - A failing endpoint leaves room in flight for all others (`FairScheduler`). A frequent kind of event leaves room and
//   turns for the others.
// - Each event is delivered at least once, counted as dropped, or cancelled together with its reverse that came while it
//   waited.
//
// Depends on HubEngine and Pusher for the vocabulary, on Reactor for clock, lock and addresses, on libcurl for HTTP and TLS.

/// How webhooks are sent.
package struct CourierConfiguration: Sendable {
    /// Whether webhooks may reach addresses outside the public internet, including this machine's own.
    package var allowsPrivate = false
    /// PEM file of the trusted certificates; nil uses the system's.
    package var caFile: String?
    /// The field `User-Agent` of requests.
    package var userAgent = "Carillon"
    /// Creates a socket, like `socket(2)`.
    var makeSocket: @Sendable (Int32, Int32, Int32) -> Int32 = { socket($0, $1, $2) }
    /// Bounds and times of requests and queues.
    package var limits = CourierLimits()

    /// The defaults: no private addresses, and the system's certificates.
    package init() {}
}

/// Sends webhooks on a thread of its own. Any thread may call it; only `stop` blocks.
package final class Courier: WebhookSink {
    private let inbox: CourierInbox
    private let metrics: CourierMetrics
    private let thread: SystemThread

    /// Starts the thread.
    ///
    /// - Throws: `CourierError` if memory or threads run out.
    package init(
        _ configuration: CourierConfiguration, apps: [WebhookApp], metrics: CourierMetrics, logger: Logger
    ) throws(CourierError) {
        let multi = try CurlMulti<Transfer>(connections: configuration.limits.requestsMax)
        self.metrics = metrics
        inbox = CourierInbox(configuration.limits, metrics, multi, apps)
        let loop = CourierLoop(configuration, inbox, metrics, logger)
        do throws(ReactorError) {
            // `SystemThread` blocks signals, so writing to a closed connection does not end the process.
            thread = try SystemThread(name: "courier") { loop.run() }
        } catch {
            throw CourierError("\(error)")
        }
    }

    /// Queues the event for the endpoints of its app that ask for its kind.
    package func post(_ event: WebhookEvent, of app: App, _ receipt: WebhookReceipt? = nil) {
        guard app.features.webhooks.contains(event.kind) else { return metrics.drop(1, .unwanted) }
        inbox.post(PostedEvent(event: event, appID: app.id, at: .read(), receipt: receipt))
    }

    /// Counts events as dropped: their apps were removed.
    package func dropped(unserved count: Int) { metrics.drop(count, .removed) }

    /// Replaces the endpoints. Events that wait for an endpoint that stays keep waiting.
    package func replace(_ apps: [WebhookApp]) {
        inbox.replace(apps)
    }

    /// Ends the thread. Waiting events are sent first and failed ones are tried once more, for at most `patience`. What is
    /// left is counted as dropped and logged. Call once.
    package func stop(within patience: Duration) {
        inbox.stop(within: patience)
        thread.join()
    }
}

/// An event that a loop has posted to the courier, of one app.
struct PostedEvent: Sendable {
    let event: WebhookEvent
    let appID: String
    let at: Instant
    var receipt: WebhookReceipt?
}

/// The mailbox of the courier's thread.
final class CourierInbox: Sendable {
    struct Contents: Sendable {
        var events: [PostedEvent] = []
        /// Number and bytes of the events, by app and kind.
        var held: [Holder: (events: Int, bytes: Int)] = [:]
        /// The new endpoints. They apply to `events` too.
        var apps: [WebhookApp]?
        /// Apps with endpoints, at least 1.
        var appCount = 1
        /// Set when the hub stops: the time that is left.
        var patience: Duration?

        var isStopping: Bool { patience != nil }
        var isEmpty: Bool { events.isEmpty && apps == nil && !isStopping }

        mutating func take(_ apps: [WebhookApp]) {
            self.apps = apps
            appCount = max(1, apps.count { !$0.endpoints.isEmpty })
        }
    }

    /// The app and kind whose share of the bounds an event uses.
    struct Holder: Hashable {
        /// `App.id`.
        let appID: String
        let kind: WebhookKinds
    }

    let multi: CurlMulti<Transfer>
    private let contents: Locked<Contents>
    private let limits: CourierLimits
    private let metrics: CourierMetrics

    init(_ limits: CourierLimits, _ metrics: CourierMetrics, _ multi: CurlMulti<Transfer>, _ apps: [WebhookApp]) {
        self.limits = limits
        self.metrics = metrics
        self.multi = multi
        var contents = Contents()
        contents.take(apps)
        self.contents = Locked(contents)
    }

    func post(_ event: PostedEvent) {
        let bytes = event.event.bytesKept
        let (refusal, wakes) = contents.withLock { contents -> (CourierMetrics.Drop?, Bool) in
            guard !contents.isStopping else { return (.stopped, false) }
            let holder = Holder(appID: event.appID, kind: event.event.kind)
            let held = contents.held[holder, default: (0, 0)]
            let share = limits.queueBytesMax / contents.appCount / WebhookKinds.count
            guard held.events < limits.queueEventsMax, held.events == 0 || held.bytes + bytes <= share else {
                return (.full, false)
            }
            let wakes = contents.isEmpty
            contents.events.append(event)
            contents.held[holder] = (held.events + 1, held.bytes + bytes)
            return (nil, wakes)
        }
        if let refusal { metrics.drop(1, refusal) }
        if wakes { multi.wake() }
    }

    func replace(_ apps: [WebhookApp]) {
        contents.withLock { $0.take(apps) }
        multi.wake()
    }

    func stop(within patience: Duration) {
        contents.withLock { $0.patience = patience }
        multi.wake()
    }

    func takeAll() -> Contents {
        contents.withLock { contents in
            var taken = Contents()
            swap(&taken, &contents)
            (contents.patience, contents.appCount) = (taken.patience, taken.appCount)
            return taken
        }
    }
}
