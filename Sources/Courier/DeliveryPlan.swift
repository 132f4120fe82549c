import Bytes
import Channels
import Pusher
import Reactor

/// Decides which requests are made, when and in what order, and what becomes of events. Performs no I/O, reads no clock.
///
/// Invariants: a line is in `pauses` exactly while it is paused, in its app's lanes exactly while it is ready, and has a place
/// of `turns` between `nextDeparture` and `finished`. An event leaves by being delivered or by being counted as dropped, in
/// no other way.
struct DeliveryPlan {
    private let limits: CourierLimits
    private let metrics: CourierMetrics
    private var apps: [String: CourierApp] = [:]
    private var turns: Turns
    /// The latest first.
    private var pauses: [(until: Instant, line: DeliveryLine)] = []
    private var isStopping = false
    private var random: any RandomNumberGenerator

    /// What has changed at an endpoint, for the log.
    enum Change: Equatable {
        case fails(appID: String, origin: String, DeliveryFailure)
        case worksAgain(appID: String, origin: String)
    }

    init(_ limits: CourierLimits, _ metrics: CourierMetrics, random: any RandomNumberGenerator) {
        self.limits = limits
        self.metrics = metrics
        self.random = random
        turns = Turns(limits)
    }

    /// Events that wait, once for each endpoint, those of requests under way included; and their bytes.
    private(set) var waiting = 0
    private(set) var bytesWaiting = 0
    /// Requests under way.
    var underWay: Int { turns.underWay }
    /// Apps that have endpoints.
    var appCount: Int { turns.appCount }
    /// When a pause ends; nil where there is none.
    var nextDeadline: Instant? { pauses.last?.until }

    // MARK: The configuration

    /// Takes the endpoints that there are from now on. What waits for one that stays (its app and URL) keeps waiting; if
    /// anything about it has changed, it is tried again at once.
    mutating func replace(_ configured: [WebhookApp], now: Instant) {
        var old = apps
        apps = [:]
        for app in configured {
            let entry = old.removeValue(forKey: app.id) ?? CourierApp(app.id)
            apps[app.id] = entry
            let known = entry.endpoints
            entry.endpoints = app.endpoints.map { configuration in
                guard let endpoint = known.first(where: { $0.configuration.url == configuration.url }) else {
                    return Endpoint(entry, app.credentials, configuration, limits)
                }
                change(endpoint, configuration, app.credentials, now: now)
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

    private mutating func change(
        _ endpoint: Endpoint, _ configuration: WebhookEndpoint, _ credentials: AppCredentials, now: Instant
    ) {
        let before = endpoint.configuration
        endpoint.configuration = configuration
        endpoint.credentials = credentials
        if before.isBatched != configuration.isBatched {
            endpoint.awaitsLines = true
            hold(endpoint)
            changeLines(endpoint, now: now)
        } else if before != configuration {
            for line in endpoint.lines {
                guard case .paused(let until) = line.state else { continue }
                unpause(line, until)
                turns.makeReady(line)
            }
        }
    }

    /// Gives an endpoint that awaits them its lines, when nothing is under way any more.
    private mutating func changeLines(_ endpoint: Endpoint, now: Instant) {
        guard !endpoint.lines.contains(where: \.isUnderWay) else { return }
        endpoint.makeLines(limits)
        for line in endpoint.lines { schedule(line, now: now) }
    }

    /// Requests under way come to their end; all else is dropped.
    private mutating func remove(_ endpoint: Endpoint) {
        endpoint.isRemoved = true
        hold(endpoint)
        for line in endpoint.lines where !line.isUnderWay { drop(line.queue.count, of: line, .removed) }
    }

    /// No line is ready or paused any more.
    private mutating func hold(_ endpoint: Endpoint) {
        turns.removeReady(of: endpoint)
        for line in endpoint.lines where !line.isUnderWay {
            if case .paused(let until) = line.state { unpause(line, until) }
            line.state = .idle
        }
    }

    // MARK: Events

    /// Has all endpoints of the app told that want events of the kind.
    mutating func add(_ event: WebhookEvent, of appID: String, postedAt: Instant, now: Instant) {
        guard let wanting = apps[appID]?.endpoints.filter({ $0.configuration.kinds.contains(event.kind) }),
            !wanting.isEmpty
        else { return metrics.drop(1, .unwanted) }
        let queued = QueuedEvent(
            WebhookBody.text(of: event), event.kind, of: event.channel, postedAt: postedAt)
        for endpoint in wanting {
            guard endpoint.events < limits.queueEventsMax, makeRoom(for: queued.bytes, at: endpoint) else {
                metrics.drop(1, .full)
                continue
            }
            let line = endpoint.line(of: queued)
            line.queue.append(queued)
            account(queued, 1, at: endpoint)
            schedule(line, now: now)
        }
    }

    /// Sees to it that so many bytes more are within the bound: the endpoint that holds most loses its last events. False
    /// where that is the one that wants more. One that holds nothing always gets its first.
    private mutating func makeRoom(for bytes: Int, at endpoint: Endpoint) -> Bool {
        while bytesWaiting + bytes > limits.queueBytesMax {
            guard let largest, let line = largest.longestLine, let last = line.queue.last,
                endpoint.events == 0 || endpoint.bytes + bytes <= largest.bytes
            else { return endpoint.events == 0 }
            line.queue.removeLast()
            account(last, -1, at: largest)
            metrics.drop(1, .full)
        }
        return true
    }

    /// The endpoint that holds most of those that can do without an event.
    private var largest: Endpoint? {
        var largest: Endpoint?
        for app in apps.values {
            // Its lines are looked at only where it would be the largest.
            for endpoint in app.endpoints
            where endpoint.bytes > largest?.bytes ?? 0 && endpoint.longestLine != nil {
                largest = endpoint
            }
        }
        return largest
    }

    /// A line whose events have become more, or whose request has come to its end well.
    private mutating func schedule(_ line: DeliveryLine, now: Instant) {
        guard !line.endpoint.awaitsLines else { return }
        switch line.state {
        case .ready, .underWay: return
        case .paused(let until):
            guard line.failures == 0, !waitsForMore(line) else { return }
            unpause(line, until)
        case .idle:
            guard let first = line.queue.first else { return }
            let until = first.postedAt.advanced(by: limits.batchWindow)
            if waitsForMore(line), until > now { return pause(line, until: until) }
        }
        turns.makeReady(line)
    }

    private func waitsForMore(_ line: DeliveryLine) -> Bool {
        line.endpoint.configuration.isBatched && !isStopping && line.queue.count < limits.batchEventsMax
    }

    // MARK: Requests

    /// The next request to be made now; nil where there is none, or enough are under way.
    ///
    /// - Parameter milliseconds: of the clock on the wall since 1970.
    mutating func nextDeparture(now: Instant, milliseconds: UInt64) -> Departure? {
        while let pause = pauses.last, pause.until <= now {
            pauses.removeLast()
            turns.makeReady(pause.line)
        }
        while let line = turns.next() {
            // The last request is made when an event's time is over; for its place it waits as long as a request may take.
            dropExpired(line, after: limits.retryFor + limits.requestTimeout, now: now)
            guard !line.queue.isEmpty else {
                turns.end(line, isRetry: line.failures > 0)
                continue
            }
            line.departed = line.share(limits)
            let texts = line.queue.prefix(line.departed).lazy.map(\.text)
            let body = WebhookBody.body(texts, at: milliseconds)
            return Departure(
                endpoint: line.endpoint, line: line, events: line.departed, isRetry: line.failures > 0, body: body,
                signature: body.withUnsafeBytes { line.endpoint.credentials.code(ofWebhook: $0) })
        }
        return nil
    }

    /// A request came to its end. Returns what the log should tell.
    mutating func finished(_ departure: Departure, _ result: DeliveryResult, now: Instant) -> Change? {
        let (line, endpoint) = (departure.line, departure.endpoint)
        turns.end(line, isRetry: departure.isRetry)
        line.departed = 0
        var change: Change?
        switch result {
        case .delivered:
            for event in line.queue.prefix(departure.events) {
                metrics.delivered(after: now.duration(since: event.postedAt))
            }
            take(departure.events, from: line)
            line.failures = 0
            if endpoint.isFailing, !endpoint.isTroubled {
                endpoint.isFailing = false
                change = .worksAgain(appID: endpoint.app.id, origin: endpoint.configuration.origin)
            }
        case .failed(let reason):
            if !endpoint.isFailing {
                endpoint.isFailing = true
                change = .fails(appID: endpoint.app.id, origin: endpoint.configuration.origin, reason)
            }
            line.failures += 1
            dropExpired(line, after: limits.retryFor, now: now)
        }
        goOn(line, now: now)
        return change
    }

    /// What becomes of a line after a request.
    private mutating func goOn(_ line: DeliveryLine, now: Instant) {
        if line.endpoint.isRemoved { return drop(line.queue.count, of: line, .removed) }
        if line.endpoint.awaitsLines { return changeLines(line.endpoint, now: now) }
        guard line.failures > 0, let first = line.queue.first else { return schedule(line, now: now) }
        // As the hub ends, this was the last try.
        guard !isStopping else { return }
        // The last one is made when the event's time is over.
        let end = max(first.postedAt.advanced(by: limits.retryFor), now)
        pause(line, until: min(now.advanced(by: pauseAfter(line.failures)), end))
    }

    private mutating func dropExpired(_ line: DeliveryLine, after age: Duration, now: Instant) {
        while let first = line.queue.first, now.duration(since: first.postedAt) >= age {
            drop(1, of: line, .expired)
        }
    }

    /// Half of what doubles with each failure, up to all of it, by chance.
    private mutating func pauseAfter(_ failures: Int) -> Duration {
        let pause = limits.pauseMin * (1 << min(failures - 1, 20))
        return min(pause, limits.pauseMax) * Double.random(in: 0.5...1, using: &random)
    }

    // MARK: The end

    /// No batch waits for more events from now on, and what has failed is tried once more, at once. When nothing is under way
    /// after that, nothing more can be done.
    mutating func stop() {
        isStopping = true
        for pause in pauses { turns.makeReady(pause.line) }
        pauses = []
    }

    /// Drops all that is left, what is under way included. Returns how many events of each kind, once for each endpoint.
    mutating func abandon(_ underWay: some Sequence<Departure>) -> [WebhookKinds: Int] {
        var dropped: [WebhookKinds: Int] = [:]
        func abandon(_ line: DeliveryLine) {
            for event in line.queue.prefix(line.queue.count) { dropped[event.kind, default: 0] += 1 }
            drop(line.queue.count, of: line, .stopped)
        }
        for app in apps.values {
            for line in app.endpoints.lazy.flatMap(\.lines) { abandon(line) }
            (app.endpoints, app.fresh, app.again) = ([], CourierApp.Lane(), CourierApp.Lane())
        }
        // Those of endpoints that have been removed.
        for departure in underWay { abandon(departure.line) }
        (apps, pauses) = ([:], [])
        turns.replace(apps: 0)
        return dropped
    }

    // MARK: Steps

    private mutating func pause(_ line: DeliveryLine, until: Instant) {
        line.state = .paused(until: until)
        pauses.insert((until, line), at: firstPause(notAfter: until))
    }

    private mutating func unpause(_ line: DeliveryLine, _ until: Instant) {
        var place = firstPause(notAfter: until)
        while place < pauses.count, pauses[place].line !== line { place += 1 }
        if place < pauses.count { pauses.remove(at: place) }
    }

    /// The place of the first pause that ends at `until` or before.
    private func firstPause(notAfter until: Instant) -> Int {
        var (low, high) = (0, pauses.count)
        while low < high {
            let middle = (low + high) / 2
            if pauses[middle].until > until { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private mutating func drop(_ count: Int, of line: DeliveryLine, _ reason: CourierMetrics.Drop) {
        take(count, from: line)
        metrics.drop(count, reason)
    }

    private mutating func take(_ count: Int, from line: DeliveryLine) {
        for _ in 0..<count {
            guard let event = line.queue.first else { return }
            line.queue.removeFirst()
            account(event, -1, at: line.endpoint)
        }
    }

    /// - Parameter events: 1 where it comes, -1 where it goes.
    private mutating func account(_ event: QueuedEvent, _ events: Int, at endpoint: Endpoint) {
        let bytes = events * event.bytes
        endpoint.events += events
        endpoint.bytes += bytes
        waiting += events
        bytesWaiting += bytes
        metrics.wait(events, bytes: bytes)
    }
}
