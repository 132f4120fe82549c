import Bytes
import Channels
import Pusher
import Reactor

/// Decides which requests are made, when and in what order, and what becomes of events. Performs no I/O, reads no clock.
///
/// Invariants: a line is in `pauses` exactly while it is paused, in `ready` or `readyAgain` exactly while it is ready, and
/// counts among `underWay` between `nextDeparture` and `finished`. An event leaves by being delivered or by being counted
/// as dropped, in no other way.
struct DeliveryPlan {
    private let limits: CourierLimits
    private let metrics: CourierMetrics
    private var endpoints: [String: [Endpoint]] = [:]
    private var endpointCount = 0
    /// Lines that may send now.
    private var ready = Row<DeliveryLine>()
    /// The same, of those whose last request failed.
    private var readyAgain = Row<DeliveryLine>()
    /// The latest first.
    private var pauses: [(until: Instant, line: DeliveryLine)] = []
    /// Requests under way, and those of them that are made again.
    private(set) var underWay = 0
    private var retriesUnderWay = 0
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
    }

    /// Events that wait, once for each endpoint, those of requests under way included.
    private(set) var waiting = 0
    /// When a pause ends; nil where there is none.
    var nextDeadline: Instant? { pauses.last?.until }

    // MARK: The configuration

    /// Takes the endpoints that there are from now on. What waits for one that stays (its app and URL) keeps waiting; if
    /// anything about it has changed, it is tried again at once.
    mutating func replace(_ apps: [WebhookApp], now: Instant) {
        var old = endpoints
        endpoints = [:]
        endpointCount = 0
        for app in apps {
            let known = old.removeValue(forKey: app.id) ?? []
            endpoints[app.id] = app.endpoints.map { configuration in
                guard let endpoint = known.first(where: { $0.configuration.url == configuration.url }) else {
                    let lines = configuration.isBatched ? 1 : limits.linesPerEndpoint
                    return Endpoint(app.id, app.credentials, configuration, lines: lines)
                }
                let isChanged = endpoint.configuration != configuration
                endpoint.configuration = configuration
                endpoint.credentials = app.credentials
                if isChanged { wake(endpoint) }
                return endpoint
            }
            endpointCount += app.endpoints.count
            for endpoint in known where !app.endpoints.contains(where: { $0.url == endpoint.configuration.url }) {
                remove(endpoint)
            }
        }
        for endpoint in old.values.joined() { remove(endpoint) }
    }

    private mutating func wake(_ endpoint: Endpoint) {
        for line in endpoint.lines {
            guard case .paused(let until) = line.state else { continue }
            unpause(line, until)
            makeReady(line)
        }
    }

    /// Requests under way come to their end; all else is dropped.
    private mutating func remove(_ endpoint: Endpoint) {
        endpoint.isRemoved = true
        for line in endpoint.lines {
            switch line.state {
            case .idle, .underWay: continue
            case .paused(let until): unpause(line, until)
            case .ready: break
            }
            line.state = .idle
            drop(line.queue.count, of: line, .removed)
        }
        ready.removeAll { $0.endpoint === endpoint }
        readyAgain.removeAll { $0.endpoint === endpoint }
    }

    // MARK: Events

    /// Has all endpoints of the app told that want events of the kind.
    mutating func add(_ event: WebhookEvent, of appID: String, postedAt: Instant, now: Instant) {
        guard let wanting = endpoints[appID]?.filter({ $0.configuration.kinds.contains(event.kind) }), !wanting.isEmpty
        else { return metrics.drop(1, .unwanted) }
        let queued = QueuedEvent(text: WebhookBody.text(of: event), postedAt: postedAt)
        let share = limits.queueBytesMax / max(1, endpointCount)
        for endpoint in wanting {
            guard endpoint.events < limits.queueEventsMax, endpoint.bytes + queued.bytes <= share else {
                metrics.drop(1, .full)
                continue
            }
            endpoint.events += 1
            endpoint.bytes += queued.bytes
            waiting += 1
            metrics.wait(1, bytes: queued.bytes)
            let line = endpoint.line(of: event.channel)
            line.queue.append(queued)
            schedule(line, now: now)
        }
    }

    /// A line whose events have become more, or whose request has come to its end well.
    private mutating func schedule(_ line: DeliveryLine, now: Instant) {
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
        makeReady(line)
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
            makeReady(pause.line)
        }
        guard underWay < limits.requestsMax else { return nil }
        let line: DeliveryLine
        // What fails may take long to fail. It has places of its own, and so leaves some to all others.
        if retriesUnderWay < max(1, limits.requestsMax / 2), let again = readyAgain.first {
            readyAgain.removeFirst()
            line = again
            retriesUnderWay += 1
        } else if let next = ready.first {
            ready.removeFirst()
            line = next
        } else {
            return nil
        }
        underWay += 1
        line.state = .underWay
        let count = line.share(limits)
        let body = WebhookBody.body(line.queue.prefix(count).lazy.map(\.text), at: milliseconds)
        let signature = body.withUnsafeBytes { line.endpoint.credentials.code(ofText: $0) }
        return Departure(
            endpoint: line.endpoint, line: line, events: count, isRetry: line.failures > 0, body: body,
            signature: signature)
    }

    /// A request came to its end. Returns what the log should tell.
    mutating func finished(_ departure: Departure, _ result: DeliveryResult, now: Instant) -> Change? {
        let (line, endpoint) = (departure.line, departure.endpoint)
        underWay -= 1
        if departure.isRetry { retriesUnderWay -= 1 }
        line.state = .idle
        var change: Change?
        switch result {
        case .delivered:
            for event in line.queue.prefix(departure.events) {
                metrics.delivered(after: now.duration(since: event.postedAt))
            }
            take(departure.events, from: line)
            if line.failures > 0 {
                line.failures = 0
                endpoint.troubledLines -= 1
                if endpoint.troubledLines == 0 {
                    change = .worksAgain(appID: endpoint.appID, origin: endpoint.configuration.origin)
                }
            }
        case .failed(let reason):
            if line.failures == 0 {
                endpoint.troubledLines += 1
                if endpoint.troubledLines == 1 {
                    change = .fails(appID: endpoint.appID, origin: endpoint.configuration.origin, reason)
                }
            }
            line.failures += 1
            dropExpired(line, now: now)
        }
        if endpoint.isRemoved {
            drop(line.queue.count, of: line, .removed)
            return change
        }
        guard line.failures > 0, let first = line.queue.first else {
            schedule(line, now: now)
            return change
        }
        // The last one is made when the event's time is over.
        let end = max(first.postedAt.advanced(by: limits.retryFor), now)
        pause(line, until: min(now.advanced(by: pauseAfter(line.failures)), end))
        return change
    }

    private mutating func dropExpired(_ line: DeliveryLine, now: Instant) {
        while let first = line.queue.first, now.duration(since: first.postedAt) >= limits.retryFor {
            drop(1, of: line, .expired)
        }
    }

    /// Half of what doubles with each failure, up to all of it, by chance.
    private mutating func pauseAfter(_ failures: Int) -> Duration {
        let pause = limits.pauseMin * (1 << min(failures - 1, 20))
        return min(pause, limits.pauseMax) * Double.random(in: 0.5...1, using: &random)
    }

    // MARK: The end

    /// No batch waits for more events from now on.
    mutating func stop() {
        isStopping = true
        for pause in pauses where pause.line.failures == 0 {
            unpause(pause.line, pause.until)
            makeReady(pause.line)
        }
    }

    /// Drops all that is left, what is under way included.
    mutating func abandon(_ underWay: some Sequence<Departure>) {
        for endpoint in endpoints.values.joined() {
            for line in endpoint.lines { drop(line.queue.count, of: line, .stopped) }
        }
        // Those of endpoints that have been removed.
        for departure in underWay { drop(departure.line.queue.count, of: departure.line, .stopped) }
        endpoints = [:]
        (ready, readyAgain, pauses) = (Row(), Row(), [])
    }

    // MARK: Steps

    private mutating func makeReady(_ line: DeliveryLine) {
        line.state = .ready
        if line.failures > 0 { readyAgain.append(line) } else { ready.append(line) }
    }

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
            line.endpoint.events -= 1
            line.endpoint.bytes -= event.bytes
            waiting -= 1
            metrics.wait(-1, bytes: -event.bytes)
        }
    }
}
