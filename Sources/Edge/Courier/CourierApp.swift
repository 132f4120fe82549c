import Bytes

/// An app with its endpoints, and those that may send. Confined to the courier's thread.
final class CourierApp {
    let id: String
    var endpoints: [Endpoint] = []
    private var lanes = Attempt.allCases.map { _ in Lane() }

    /// The app's ready endpoints in turn, and its requests in flight.
    struct Lane {
        var ready = Fifo<Endpoint>()
        var underWay = 0
        var isInTurn = false
    }

    init(_ id: String) {
        self.id = id
    }

    subscript(attempt: Attempt) -> Lane {
        get { lanes[attempt.rawValue] }
        _modify { yield &lanes[attempt.rawValue] }
    }

    var underWay: Int { lanes.reduce(0) { $0 + $1.underWay } }

    /// Removes all endpoints, so nothing is sent any more.
    func clear() {
        endpoints = []
        for attempt in Attempt.allCases { self[attempt] = Lane() }
    }
}

/// Chooses the endpoint that sends next: from the app with the fewest requests in flight, and among equal apps in turn. An
/// app with slow or many endpoints thus leaves room for the others. Endpoints of an app take turns, and so do first
/// attempts and retries.
///
/// If several apps have endpoints, the last quarter of the room in flight is reserved for apps with less than an even share
/// of that quarter (at least one request). Slow requests would otherwise hold it until they time out; an app with nothing
/// in flight thus finds room however many apps are slow. Retries get half of the room, under the same rules, since failures
/// may take long.
///
/// Only apps whose endpoints may send are inspected. The caller checks whether the chosen endpoint may still send.
struct FairScheduler {
    private let requestsMax: Int
    private(set) var appCount = 0
    /// By attempt: apps with endpoints that may send; the last sender is at the end.
    private var rows = Attempt.allCases.map { _ in Fifo<CourierApp>() }
    /// Requests in flight, and the retries among them.
    private(set) var underWay = 0
    private var againUnderWay = 0
    /// The attempt that is chosen if both cost the same.
    private var next = Attempt.first

    init(_ limits: CourierLimits) {
        requestsMax = max(1, limits.requestsMax)
    }

    mutating func replace(apps count: Int) { appCount = count }

    /// Lets the endpoint send once, unless it already waits for its turn.
    mutating func makeReady(_ endpoint: Endpoint, _ attempt: Attempt) {
        guard !endpoint[attempt].isInTurn else { return }
        endpoint[attempt].isInTurn = true
        let app = endpoint.app
        app[attempt].ready.append(endpoint)
        if !app[attempt].isInTurn { rows[attempt.rawValue].append(app) }
        app[attempt].isInTurn = true
    }

    mutating func remove(_ endpoint: Endpoint) {
        let app = endpoint.app
        for attempt in Attempt.allCases where endpoint[attempt].isInTurn {
            endpoint[attempt].isInTurn = false
            app[attempt].ready.sweep { $0 !== endpoint }
            guard app[attempt].ready.isEmpty else { continue }
            app[attempt].isInTurn = false
            rows[attempt.rawValue].sweep { $0 !== app }
        }
    }

    /// The endpoint that sends now, counted as in flight until `end`; nil if none may send.
    mutating func takeNext() -> (Endpoint, Attempt)? {
        guard underWay < requestsMax else { return nil }
        let fresh = first(of: .first, taken: underWay, of: requestsMax)
        let failed = first(of: .again, taken: againUnderWay, of: max(1, requestsMax / 2))
        switch (fresh, failed) {
        case (nil, nil): return nil
        case (let fresh?, nil): return take(fresh.index, .first)
        case (nil, let failed?): return take(failed.index, .again)
        case (let fresh?, let failed?):
            if fresh.cost != failed.cost {
                return fresh.cost < failed.cost ? take(fresh.index, .first) : take(failed.index, .again)
            }
            let attempt = next
            next = attempt == .first ? .again : .first
            return take(attempt == .first ? fresh.index : failed.index, attempt)
        }
    }

    mutating func end(_ endpoint: Endpoint, _ attempt: Attempt) {
        underWay -= 1
        if attempt == .again { againUnderWay -= 1 }
        endpoint.app[attempt].underWay -= 1
        endpoint[attempt].underWay -= 1
    }

    /// The row's next app, if one may send: its index and its requests in flight.
    private func first(of attempt: Attempt, taken: Int, of slots: Int) -> (index: Int, cost: Int)? {
        guard taken < slots else { return nil }
        let isLaneFull = taken >= slots - left(of: slots)
        let isFull = underWay >= requestsMax - left(of: requestsMax)
        var least: (index: Int, cost: Int)?
        for index in 0..<rows[attempt.rawValue].count {
            let app = rows[attempt.rawValue][index]
            guard app.underWay < least?.cost ?? .max, !isLaneFull || app[attempt].underWay < share(of: slots),
                !isFull || app.underWay < share(of: requestsMax)
            else { continue }
            least = (index, app.underWay)
            if app.underWay == 0 { break }
        }
        return least
    }

    /// The room reserved for apps below their share.
    private func left(of slots: Int) -> Int { appCount > 1 ? slots / 4 : 0 }

    /// Each app's share of the reserved room.
    private func share(of slots: Int) -> Int { max(1, slots / 4 / max(1, appCount)) }

    /// Lets the app at that index send, then moves it to the end of the row.
    private mutating func take(_ index: Int, _ attempt: Attempt) -> (Endpoint, Attempt)? {
        let app = rows[attempt.rawValue].remove(at: index)
        guard let endpoint = app[attempt].ready.popFirst() else { return nil }
        app[attempt].isInTurn = !app[attempt].ready.isEmpty
        if app[attempt].isInTurn { rows[attempt.rawValue].append(app) }
        endpoint[attempt].isInTurn = false
        app[attempt].underWay += 1
        endpoint[attempt].underWay += 1
        underWay += 1
        if attempt == .again { againUnderWay += 1 }
        return (endpoint, attempt)
    }
}
