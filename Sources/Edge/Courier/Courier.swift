import Channels
import Clock
import Glibc
import Logging
import Reactor

// Courier: webhooks out. Events of channels become signed requests to the endpoints of their apps.
//
// Purpose: a loop hands an event over with one lock and goes on; the courier's thread decides (`DeliveryPlan`) and libcurl
// carries (`CurlMulti`, `Transfer`). Lifecycle: `init` starts the thread; `replace` gives it other endpoints while it runs;
// `stop` gives what waits some time and joins it. Invariants: the events of one channel reach an endpoint in their order,
// one request after the other; what is signed is what is sent; a request says when it is made, the repeated one too; an
// endpoint that fails leaves places to all others (`FairScheduler`), and a kind of event of which there are many leaves room and turns to
// the others; every event is delivered, at least once, or counted as dropped, or goes with its reverse that came while it waited. Depends on Channels
// and Pusher for the words, on Reactor for clock, lock and addresses, on libcurl for HTTP and TLS.

/// How webhooks are sent.
package struct CourierConfiguration: Sendable {
    /// Whether addresses may be reached that are not of the public internet, this machine's own among them.
    package var allowsPrivate = false
    /// PEM file of the certificates that are trusted in place of the system's; nil: the system's.
    package var caFile: String?
    package var userAgent = "Carillon"
    /// Makes a socket, as `socket(2)`.
    var makeSocket: @Sendable (Int32, Int32, Int32) -> Int32 = { socket($0, $1, $2) }
    package var limits = CourierLimits()

    package init() {}
}

/// Sends webhooks on a thread of its own. Any thread; nothing here waits but `stop`.
package final class Courier: WebhookSink {
    private let inbox: CourierInbox
    private let thread: SystemThread

    /// Starts the thread.
    ///
    /// - Throws: `CourierError`, for want of memory or threads.
    package init(
        _ configuration: CourierConfiguration, apps: [WebhookApp], metrics: CourierMetrics, logger: Logger
    ) throws(CourierError) {
        let multi = try CurlMulti(connections: configuration.limits.requestsMax)
        inbox = CourierInbox(configuration.limits, metrics, multi, apps)
        let loop = CourierLoop(configuration, inbox, metrics, logger)
        do throws(ReactorError) {
            // Its writes to a connection that has gone must not end the process: signals are blocked there.
            thread = try SystemThread(name: "courier") { loop.run() }
        } catch {
            throw CourierError("\(error)")
        }
    }

    package func post(_ event: WebhookEvent, of app: App) {
        guard app.features.webhooks.contains(event.kind) else { return }
        inbox.post(PostedEvent(event: event, appID: app.id, at: .read()))
    }

    /// Has these endpoints told from now on. What waits for those that stay keeps waiting.
    package func replace(_ apps: [WebhookApp]) {
        inbox.replace(apps)
    }

    /// Ends the thread. What waits is sent first, what has failed once more, for so long at most; what is left then is
    /// counted as dropped, and told by the log. Once.
    package func stop(within patience: Duration) {
        inbox.stop(within: patience)
        thread.join()
    }
}

/// An event on its way to the courier's thread.
struct PostedEvent: Sendable {
    let event: WebhookEvent
    let appID: String
    let at: Instant
}

/// The door to the courier's thread.
final class CourierInbox: Sendable {
    /// What has come since the thread looked.
    struct Contents: Sendable {
        var events: [PostedEvent] = []
        /// How many of them are of an app and a kind, and their bytes.
        var held: [Holder: (events: Int, bytes: Int)] = [:]
        /// The endpoints from now on, for the events too.
        var apps: [WebhookApp]?
        /// How many apps have endpoints, 1 at least.
        var appCount = 1
        /// Set when the hub ends: the time that is left.
        var patience: Duration?

        var isStopping: Bool { patience != nil }
        var isEmpty: Bool { events.isEmpty && apps == nil && !isStopping }

        mutating func take(_ apps: [WebhookApp]) {
            self.apps = apps
            appCount = max(1, apps.count { !$0.endpoints.isEmpty })
        }
    }

    /// Whose room an event takes.
    struct Holder: Hashable {
        /// `App.id`.
        let appID: String
        let kind: WebhookKinds
    }

    let multi: CurlMulti
    private let contents: Locked<Contents>
    private let limits: CourierLimits
    private let metrics: CourierMetrics

    init(_ limits: CourierLimits, _ metrics: CourierMetrics, _ multi: CurlMulti, _ apps: [WebhookApp]) {
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

    /// Takes out all that has come.
    func takeAll() -> Contents {
        contents.withLock { contents in
            var taken = Contents()
            swap(&taken, &contents)
            (contents.patience, contents.appCount) = (taken.patience, taken.appCount)
            return taken
        }
    }
}
