import Bytes
import Clock
import HubEngine
import Pusher
import Reactor

/// Decides which requests are made, when and in what order, and what becomes of events. Performs no I/O, reads no clock.
///
/// The events of one channel wait in a `DeliveryQueue` with at most one request in flight, so they arrive in order whatever
/// fails. Between lines the order is free, and no line starves (`Endpoint.takeNext`). A line whose request failed pauses
/// with a growing backoff. A failing endpoint gets few requests: retries one by one, `pauseMin` apart, and first attempts
/// at once while half of its room is free, so that its recovery is noticed soon. After its recovery a line stays paused
/// only if it failed again after an early release.
///
/// Worst interleavings, each with its test in `BacklogTests`, and all of them in `ReceiverHistories`:
/// - A user comes and goes during a request: an event that is in flight or may have arrived is not cancelled, and its
///   reverse follows (`whatMayHaveArrivedIsNotTakenBack`).
/// - A hub has told that a user left, and ends. Another one gets that once more, and that the user is back. If it took both
///   back, backends would never hear the latter (`whatAnotherHubMayHaveToldIsNotTakenBack`).
/// - An endpoint hangs with all its room taken, then answers again: room is free soon, and new events are sent first
///   (`whatIsNewWaitsForNoBacklog`).
/// - One channel's event is refused for ever while others are accepted: each success allows one early retry per pause
///   (`whatIsRefusedAmongOthersIsNotRepeatedWithEach`).
///
/// Invariants: a request is in flight in `turns` from `nextRequest` until `finished`. An event leaves only by being
/// delivered, counted as dropped, or cancelled with its reverse.
struct DeliveryPlan {
    let limits: CourierLimits
    let metrics: CourierMetrics
    var apps: [String: CourierApp] = [:]
    private var turns: FairScheduler
    private var pauses = Pauses()
    private(set) var isStopping = false
    private var random: any RandomNumberGenerator
    /// The number of the last event.
    var lastNumber: UInt64 = 0
    /// When the first event may be too old to send; nil if none waits.
    var nextExpiry: Instant?

    /// An endpoint's change of state, for the log.
    enum Change: Equatable {
        case fails(appID: String, origin: String, DeliveryFailure)
        case worksAgain(appID: String, origin: String)
    }

    init(_ limits: CourierLimits, _ metrics: CourierMetrics, random: any RandomNumberGenerator) {
        self.limits = limits
        self.metrics = metrics
        self.random = random
        turns = FairScheduler(limits)
    }

    /// Waiting events, counted once per endpoint and including those in flight; and their bytes by holder.
    private(set) var waiting = 0
    private(set) var shares = Shares<EventHolder, Void>()
    var underWay: Int { turns.underWay }
    var appCount: Int { turns.appCount }
    /// When the first pause ends; nil if there is none.
    var nextDeadline: Instant? { pauses.nextEnd }

    // MARK: The configuration

    /// Replaces the endpoints. Events for an endpoint that stays (same app and URL) keep waiting; if its configuration
    /// changed, it is tried again at once.
    mutating func replace(_ configured: [WebhookApp], now: Instant) {
        var old = apps
        apps = [:]
        for app in configured {
            let entry = old.removeValue(forKey: app.id) ?? CourierApp(app.id)
            apps[app.id] = entry
            let known = entry.endpoints
            entry.endpoints = app.endpoints.map { configuration in
                guard let endpoint = known.first(where: { $0.configuration.url == configuration.url }) else {
                    return Endpoint(entry, app.credentials, configuration)
                }
                let isChanged = endpoint.configuration != configuration
                endpoint.configuration = configuration
                endpoint.credentials = app.credentials
                if isChanged { beginAnew(endpoint, now: now) }
                return endpoint
            }
            for endpoint in known where !app.endpoints.contains(where: { $0.url == endpoint.configuration.url }) {
                remove(endpoint)
            }
        }
        for app in old.values {
            for endpoint in app.endpoints { remove(endpoint) }
            app.endpoints = []
        }
        turns.replace(apps: configured.count { !$0.endpoints.isEmpty })
    }

    private mutating func beginAnew(_ endpoint: Endpoint, now: Instant) {
        endpoint.isDown = false
        for line in pauses.end(where: { of, _ in of === endpoint }) { endpoint.makeReady(line) }
        schedule(endpoint, now: now)
    }

    /// Requests in flight finish; all other events are dropped.
    private mutating func remove(_ endpoint: Endpoint) {
        endpoint.isRemoved = true
        turns.remove(endpoint)
        for line in pauses.end(where: { of, _ in of === endpoint }) { drop(line.queue.elements, .removed) }
        for line in endpoint.lines.values where !line.isUnderWay { drop(line.queue.elements, .removed) }
    }

    // MARK: Requests

    /// The next request to make now; nil if there is none or too many are in flight.
    ///
    /// - Parameter milliseconds: wall-clock time since 1970.
    mutating func nextRequest(now: Instant, milliseconds: UInt64) -> WebhookRequest? {
        while let (endpoint, line) = pauses.popEnded(at: now) {
            line?.wasReleased = false
            if let line { endpoint.makeReady(line) }
            schedule(endpoint, now: now)
        }
        dropExpired(now: now)
        while let (endpoint, attempt) = turns.takeNext() {
            if case .now = endpoint.mayBegin(attempt, limits, now: now, isTaken: true, isStopping: isStopping) {
                let (events, lines) = takeEvents(endpoint, attempt, now: now)
                if !events.isEmpty {
                    endpoint.lastBegun = now
                    schedule(endpoint, now: now)
                    let body = WebhookBody.body(events.lazy.map(\.text), at: milliseconds)
                    return WebhookRequest(
                        endpoint: endpoint, events: events, lines: lines, attempt: attempt, body: body,
                        signature: body.withUnsafeBytes { endpoint.credentials.code(ofWebhook: $0) })
                }
            }
            turns.end(endpoint, attempt)
            schedule(endpoint, now: now)
        }
        return nil
    }

    /// Queues the endpoint for its turn if it may send, or pauses it until it may.
    mutating func schedule(_ endpoint: Endpoint, now: Instant) {
        var until: Instant?
        for attempt in Attempt.allCases {
            switch endpoint.mayBegin(attempt, limits, now: now, isStopping: isStopping) {
            case .no: break
            case .now: turns.makeReady(endpoint, attempt)
            case .at(let time): until = min(until ?? time, time)
            }
        }
        pauses.set(endpoint, until: until)
    }

    /// The events and lines of the endpoint's next request; empty if all events were too old.
    private mutating func takeEvents(
        _ endpoint: Endpoint, _ attempt: Attempt, now: Instant
    ) -> (events: [QueuedEvent], lines: [DeliveryQueue]) {
        let isBatched = endpoint.configuration.isBatched
        let most = isBatched ? limits.batchEventsMax : 1
        // Each line first gets only a portion, or one line would fill the batch.
        let portion = max(1, most / WebhookKinds.count)
        var (taken, bytes) = (0, 0)
        var parts: [(line: DeliveryQueue, rest: ArraySlice<QueuedEvent>)] = []
        func takes(_ event: QueuedEvent) -> Bool {
            guard taken < most, taken == 0 || bytes + event.text.count + 1 <= limits.batchBytesMax else { return false }
            taken += 1
            bytes += event.text.count + 1
            set(event, isUnderWay: true)
            return true
        }
        while taken < most, let line = endpoint.takeNext(attempt) {
            // The last request may begin when an event's retry time ends; it may then wait for room as long as a request
            // takes.
            dropExpired(line, after: limits.retryFor + limits.requestTimeout, now: now)
            var rest = line.queue.prefix(most)[...]
            while let event = rest.first, rest.startIndex < portion, takes(event) { rest.removeFirst() }
            guard rest.startIndex > 0 else {
                // Too old, or too long for the rest of the batch.
                if !line.queue.isEmpty { endpoint.makeReady(line) }
                if taken > 0 { break } else { continue }
            }
            line.state = .underWay
            parts.append((line, rest))
        }
        for part in parts {
            var rest = part.rest
            while let event = rest.first, takes(event) { rest.removeFirst() }
        }
        let events = parts.flatMap { $0.line.queue.prefix(most).prefix { $0.isUnderWay } }
        return (events.sorted { $0.number < $1.number }, parts.map(\.line))
    }

    /// Ends a request. Returns what to log.
    mutating func finished(_ request: WebhookRequest, _ result: DeliveryResult, now: Instant) -> Change? {
        let endpoint = request.endpoint
        turns.end(endpoint, request.attempt)
        let lines = request.lines
        for line in lines { line.state = .idle }
        for event in request.events { set(event, isUnderWay: false) }
        var change: Change?
        switch result {
        case .delivered:
            for line in lines { endpoint.setFailures(0, of: line) }
            for event in request.events {
                metrics.delivered(after: now.duration(since: event.postedAt))
                if let change = event.change {
                    endpoint.lost.told(change, in: event.line.channel, number: event.number)
                }
                take(event)
            }
            if endpoint.events == 0 { endpoint.lost.allTold() }
            if endpoint.isFailing, endpoint.troubled == 0 {
                endpoint.isFailing = false
                change = .worksAgain(appID: endpoint.app.id, origin: endpoint.configuration.origin)
            }
            endpoint.isDown = false
            release(endpoint)
        case .failed(let reason):
            if !endpoint.isFailing {
                endpoint.isFailing = true
                change = .fails(appID: endpoint.app.id, origin: endpoint.configuration.origin, reason)
            }
            for event in request.events where reason.mayHaveArrived { event.mayBeKnown = true }
            endpoint.isDown = true
            if request.attempt == .again { endpoint.nextRepeat = now.advanced(by: limits.pauseMin) }
            for line in lines {
                endpoint.setFailures(line.failures + 1, of: line)
                dropExpired(line, after: limits.retryFor, now: now)
            }
        }
        goOn(lines.filter { !$0.queue.isEmpty }, endpoint, now: now)
        schedule(endpoint, now: now)
        return change
    }

    /// Reschedules the lines of an ended request that still hold events.
    private mutating func goOn(_ lines: [DeliveryQueue], _ endpoint: Endpoint, now: Instant) {
        guard !endpoint.isRemoved else {
            for line in lines { drop(line.queue.elements, .removed) }
            return
        }
        // The lines of one batch are retried together.
        let failures = lines.map(\.failures).max() ?? 0
        let pause = failures > 0 && !isStopping ? pauseAfter(failures) : .zero
        let first = lines.filter { $0.failures > 0 }.compactMap { $0.queue.first?.postedAt }.min() ?? now
        // The last retry is made when the event's retry time ends.
        let until = min(now.advanced(by: pause), max(first.advanced(by: limits.retryFor), now))
        for line in lines {
            if line.failures == 0 {
                endpoint.makeReady(line)
            } else if isStopping {
                line.state = .spent
            } else {
                pauses.begin(line, until: until)
            }
        }
    }

    /// The endpoint answers: ends the pauses of lines that failed meanwhile.
    private mutating func release(_ endpoint: Endpoint) {
        guard endpoint.releasable > 0 else { return }
        for line in pauses.end(where: { of, line in of === endpoint && line?.wasReleased == false }) {
            line.wasReleased = true
            endpoint.makeReady(line)
        }
    }

    /// Exponential backoff with jitter: a random half to all of the doubled pause.
    private mutating func pauseAfter(_ failures: Int) -> Duration {
        let pause = limits.pauseMin * (1 << min(failures - 1, 20))
        return min(pause, limits.pauseMax) * Double.random(in: 0.5...1, using: &random)
    }

    // MARK: The end

    /// From now on no batch waits for more events, and failed events are retried once, at once. When no request is in
    /// flight after that, nothing more can be done.
    mutating func stop(now: Instant) {
        isStopping = true
        // Others tell what is kept elsewhere: sent by both, an older event could be the last word.
        let kept = apps.values.flatMap(\.endpoints).flatMap(\.lines.values).flatMap(\.queue.elements)
        for event in kept where event.isKept && !event.isUnderWay { take(event) }
        for line in pauses.end(where: { _, _ in true }) { line.endpoint.makeReady(line) }
        for app in apps.values { for endpoint in app.endpoints { schedule(endpoint, now: now) } }
    }

    /// Drops all events, including those in flight. Returns the number of each kind, counted once per endpoint.
    mutating func abandon(_ underWay: some Sequence<WebhookRequest>) -> [WebhookKinds: Int] {
        var dropped: [WebhookKinds: Int] = [:]
        // Includes lines of removed endpoints.
        let lines = apps.values.flatMap(\.endpoints).flatMap(\.lines.values) + underWay.flatMap(\.lines)
        _ = pauses.end { _, _ in true }
        for line in lines {
            for event in line.queue.elements { dropped[event.kind, default: 0] += 1 }
            drop(line.queue.elements, .stopped)
        }
        for app in apps.values { app.clear() }
        apps = [:]
        turns.replace(apps: 0)
        return dropped
    }

    // MARK: Steps

    private mutating func dropExpired(_ line: DeliveryQueue, after age: Duration, now: Instant) {
        while let first = line.queue.first, now.duration(since: first.postedAt) >= age { drop([first], .expired) }
    }

    mutating func drop(_ events: [QueuedEvent], _ reason: CourierMetrics.Drop) {
        for event in events {
            if let change = event.change {
                event.line.endpoint.lost.add(change, in: event.line.channel, number: event.number)
            }
            take(event)
        }
        metrics.drop(events.count, reason)
    }

    /// Removes an event wherever it is. A line without events is removed.
    mutating func take(_ event: QueuedEvent) {
        let line = event.line
        let endpoint = line.endpoint
        endpoint.remove(event)
        account(event, -1)
        guard line.queue.isEmpty else { return }
        pauses.end(line)
        endpoint.setFailures(0, of: line)
        endpoint.lines[line.channel] = nil
    }

    private mutating func set(_ event: QueuedEvent, isUnderWay: Bool) {
        event.line.endpoint.set(event, isUnderWay: isUnderWay)
        shares.set(event.holder, gives: event.holder.held.hasSpare)
    }

    /// - Parameter events: 1 to add the event, -1 to remove it.
    mutating func account(_ event: QueuedEvent, _ events: Int) {
        waiting += events
        shares.add(events * event.bytes, to: event.holder)
        shares.set(event.holder, gives: event.holder.held.hasSpare)
        metrics.wait(events, bytes: events * event.bytes)
    }
}
