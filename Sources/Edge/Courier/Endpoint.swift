import Clock
import HubEngine
import Pusher
import Reactor

/// An endpoint with its waiting events. Confined to the courier's thread.
final class Endpoint {
    /// Kept while a request is in flight, even if the app has left the configuration.
    let app: CourierApp
    /// The current configuration; its URL never changes.
    var configuration: WebhookEndpoint
    var credentials: AppCredentials
    /// Whether it has left the configuration, so that no event may wait for it.
    var isRemoved = false
    /// Whether the log has reported a failure and not yet the recovery.
    var isFailing = false
    /// Lines whose last request failed.
    var troubled = 0
    /// Whether the last request to end failed.
    var isDown = false
    var lastBegun = Instant(nanoseconds: 0)
    /// While it is down: the earliest time of the next retry.
    var nextRepeat = Instant(nanoseconds: 0)
    /// The end of the pause after which one of its lanes may send; nil without a pause.
    var pausedUntil: Instant?
    /// Paused lines that may be released early when it answers.
    var releasable = 0
    var lines: [ChannelName: DeliveryQueue] = [:]
    /// The changes that it was never told (`whatWasLostIsToldAgain`).
    var lost = LostChanges()
    /// Its events by kind, including those in flight.
    private(set) var held = Array(repeating: Held(), count: WebhookKinds.count)
    private var lanes = Attempt.allCases.map { _ in Lane() }

    struct Held {
        var events = SortedDeque<QueuedEvent>()
        var underWay = 0

        var hasSpare: Bool { events.count > max(1, underWay) }
        /// The event to drop when there are too many: the last one that is not in flight, but never the only event.
        var spare: QueuedEvent? { hasSpare ? events.last { !$0.isUnderWay } : nil }
    }

    /// The lines that may send.
    struct Lane {
        /// By kind: the lines with events of that kind, oldest first.
        var rows = Array(repeating: SortedDeque<DeliveryQueue>(), count: WebhookKinds.count)
        /// The index of the kind whose turn it is.
        var nextKind = 0
        /// The kinds whose newest line is next.
        var newestNext: WebhookKinds = []
        /// Events of all its lines.
        var events = 0
        var underWay = 0
        /// Whether the endpoint waits for its turn.
        var isInTurn = false
    }

    init(_ app: CourierApp, _ credentials: AppCredentials, _ configuration: WebhookEndpoint) {
        self.app = app
        self.credentials = credentials
        self.configuration = configuration
    }

    var events: Int { held.reduce(0) { $0 + $1.events.count } }
    var underWay: Int { lanes.reduce(0) { $0 + $1.underWay } }

    subscript(attempt: Attempt) -> Lane {
        get { lanes[attempt.rawValue] }
        _modify { yield &lanes[attempt.rawValue] }
    }

    // MARK: Requests

    /// The bound of requests in flight. With batches: one per lane, and further ones only while these hang.
    func slots(_ limits: CourierLimits) -> Int { max(configuration.isBatched ? 2 : 1, limits.requestsPerEndpoint) }

    /// The bound of one attempt's requests in flight: retries get half, or one batch.
    func slots(_ limits: CourierLimits, of attempt: Attempt) -> Int {
        if configuration.isBatched { return attempt == .first ? slots(limits) - 1 : 1 }
        return attempt == .first ? slots(limits) : max(1, slots(limits) / 2)
    }

    enum Readiness {
        case no, now
        case at(Instant)
    }

    /// Whether it may begin a request.
    ///
    /// - Parameter isTaken: whether the request is already counted as in flight.
    func mayBegin(
        _ attempt: Attempt, _ limits: CourierLimits, now: Instant, isTaken: Bool = false, isStopping: Bool
    ) -> Readiness {
        let own = isTaken ? 1 : 0
        let (slots, underWay) = (self.slots(limits), self.underWay - own)
        guard !isRemoved, self[attempt].events > 0, underWay < slots,
            self[attempt].underWay - own < self.slots(limits, of: attempt)
        else { return .no }
        if isStopping { return .now }
        if attempt == .first, configuration.isBatched, self[attempt].events < limits.batchEventsMax,
            let until = oldest(attempt)?.postedAt.advanced(by: limits.batchWindow), until > now
        {
            return .at(until)
        }
        // Spaced so that an endpoint that hangs keeps getting room: a request ends when its time is over.
        let next = lastBegun.advanced(by: limits.requestTimeout / slots)
        if attempt == .first, configuration.isBatched, self[attempt].underWay - own > 0, next > now {
            return .at(next)
        }
        guard isDown else { return .now }
        if attempt == .again {
            guard self[attempt].underWay - own == 0 else { return .no }
            return nextRepeat > now ? .at(nextRepeat) : .now
        }
        return underWay < max(1, slots / 2) || next <= now ? .now : .at(next)
    }

    // MARK: Events

    func append(_ event: QueuedEvent) {
        held[event.kind.index].events.insert(event, event.number)
        let line = event.line
        guard line.isReady else { return line.append(event) }
        if line.counts[event.kind.index] == 0 { self[line.attempt].rows[event.kind.index].insert(line, line.rowNumber) }
        self[line.attempt].events += 1
        line.append(event)
    }

    func set(_ event: QueuedEvent, isUnderWay: Bool) {
        guard event.isUnderWay != isUnderWay else { return }
        event.isUnderWay = isUnderWay
        held[event.kind.index].underWay += isUnderWay ? 1 : -1
    }

    func remove(_ event: QueuedEvent) {
        held[event.kind.index].events.remove(event.number)
        if event.isUnderWay { held[event.kind.index].underWay -= 1 }
        let line = event.line
        let wasReady = line.isReady
        if wasReady { rest(line) }
        line.remove(event)
        if wasReady, !line.queue.isEmpty { makeReady(line) }
    }

    // MARK: Lines

    /// Lets a line with events send.
    func makeReady(_ line: DeliveryQueue) {
        guard let first = line.queue.first else { return }
        line.state = .ready
        line.rowNumber = first.number
        for kind in 0..<WebhookKinds.count where line.counts[kind] > 0 {
            self[line.attempt].rows[kind].insert(line, line.rowNumber)
        }
        self[line.attempt].events += line.queue.count
    }

    /// Makes a ready line idle.
    func rest(_ line: DeliveryQueue) {
        line.state = .idle
        for kind in 0..<WebhookKinds.count where line.counts[kind] > 0 {
            self[line.attempt].rows[kind].remove(line.rowNumber)
        }
        self[line.attempt].events -= line.queue.count
    }

    /// Removes the line whose turn it is. Kinds take turns, so many events of one kind do not delay another. First attempts
    /// take the oldest and the newest line alternately, so a new event does not wait for the whole backlog.
    func takeNext(_ attempt: Attempt) -> DeliveryQueue? {
        for _ in 0..<WebhookKinds.count {
            let kind = self[attempt].nextKind
            self[attempt].nextKind = (kind + 1) % WebhookKinds.count
            let bit = WebhookKinds(rawValue: 1 << UInt8(kind))
            let takesNewest = attempt == .first && self[attempt].newestNext.contains(bit)
            // Keeps no copy of the row: removing the line would then copy the storage.
            guard let line = takesNewest ? self[attempt].rows[kind].last : self[attempt].rows[kind].first else {
                continue
            }
            self[attempt].newestNext.formSymmetricDifference(bit)
            rest(line)
            return line
        }
        return nil
    }

    /// The lane's event that has waited longest.
    func oldest(_ attempt: Attempt) -> QueuedEvent? {
        self[attempt].rows.compactMap(\.first?.queue.first).min { $0.number < $1.number }
    }

    func setFailures(_ failures: Int, of line: DeliveryQueue) {
        troubled += (failures > 0 ? 1 : 0) - (line.failures > 0 ? 1 : 0)
        line.failures = failures
        if failures == 0 { line.wasReleased = false }
    }

    func paused(_ line: DeliveryQueue, until: Instant) {
        line.state = .paused(until: until)
        if !line.wasReleased { releasable += 1 }
    }

    /// The line's pause is over; without a line, the endpoint's.
    func pauseEnded(_ line: DeliveryQueue?) {
        guard let line else {
            pausedUntil = nil
            return
        }
        line.state = .idle
        if !line.wasReleased { releasable -= 1 }
    }
}
