import Bytes

/// An app with its endpoints, and those of them that may send. Of the courier's thread.
final class CourierApp {
    let id: String
    var endpoints: [Endpoint] = []
    private var lanes = Attempt.allCases.map { _ in Lane() }

    /// Endpoints in their order, and how many requests are under way.
    struct Lane {
        var ready = Fifo<Endpoint>()
        var underWay = 0
        /// Whether the app waits for its turn.
        var isInTurn = false
    }

    init(_ id: String) {
        self.id = id
    }

    subscript(attempt: Attempt) -> Lane {
        get { lanes[attempt.rawValue] }
        _modify { yield &lanes[attempt.rawValue] }
    }

    /// Requests under way.
    var underWay: Int { lanes.reduce(0) { $0 + $1.underWay } }

    /// None of its endpoints sends any more.
    func clear() {
        endpoints = []
        for attempt in Attempt.allCases { self[attempt] = Lane() }
    }
}

/// Decides which endpoint sends next: of the app that has the fewest requests under way, and among those in turn, so that one
/// whose endpoints are slow or many leaves places to the others. Endpoints of an app take turns, and so do what has not been
/// tried and what has failed.
///
/// Where several apps have endpoints, the last quarter of the places is left to those that have less than their even share
/// of it, and one at least: what is slow would hold it for as long as a request may take, and however many apps are slow,
/// one that has nothing under way finds a place. What has failed has half of the places, and in them the same rules: what
/// fails may take long to fail.
///
/// Looks at the apps whose endpoints may send, and at no others. Whether an endpoint that has its turn may still send is for
/// the caller to see.
struct FairScheduler {
    private let requestsMax: Int
    /// Apps that have endpoints.
    private(set) var appCount = 0
    /// By attempt: apps with endpoints that may send, who sent last behind.
    private var rows = Attempt.allCases.map { _ in Fifo<CourierApp>() }
    /// Requests under way, and those of them that are made again.
    private(set) var underWay = 0
    private var againUnderWay = 0
    /// Who goes first where both may.
    private var next = Attempt.first

    init(_ limits: CourierLimits) {
        requestsMax = max(1, limits.requestsMax)
    }

    /// So many apps have endpoints from now on.
    mutating func replace(apps count: Int) { appCount = count }

    /// The endpoint may send once, unless it waits for its turn already.
    mutating func makeReady(_ endpoint: Endpoint, _ attempt: Attempt) {
        guard !endpoint[attempt].isInTurn else { return }
        endpoint[attempt].isInTurn = true
        let app = endpoint.app
        app[attempt].ready.append(endpoint)
        if !app[attempt].isInTurn { rows[attempt.rawValue].append(app) }
        app[attempt].isInTurn = true
    }

    /// Takes the endpoint's turns.
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

    /// The endpoint that sends now, which has a place until `end`; nil where none may.
    mutating func takeNext() -> (Endpoint, Attempt)? {
        guard underWay < requestsMax else { return nil }
        let fresh = first(of: .first, taken: underWay, of: requestsMax)
        let failed = first(of: .again, taken: againUnderWay, of: max(1, requestsMax / 2))
        switch (fresh, failed) {
        case (nil, nil): return nil
        case (let fresh?, nil): return take(fresh.place, .first)
        case (nil, let failed?): return take(failed.place, .again)
        case (let fresh?, let failed?):
            if fresh.cost != failed.cost {
                return fresh.cost < failed.cost ? take(fresh.place, .first) : take(failed.place, .again)
            }
            let attempt = next
            next = attempt == .first ? .again : .first
            return take(attempt == .first ? fresh.place : failed.place, attempt)
        }
    }

    /// Gives a place back.
    mutating func end(_ endpoint: Endpoint, _ attempt: Attempt) {
        underWay -= 1
        if attempt == .again { againUnderWay -= 1 }
        endpoint.app[attempt].underWay -= 1
        endpoint[attempt].underWay -= 1
    }

    /// Who of the row is next, where one may: its place in it, and what it has under way.
    private func first(of attempt: Attempt, taken: Int, of places: Int) -> (place: Int, cost: Int)? {
        guard taken < places else { return nil }
        let isLaneFull = taken >= places - left(of: places)
        let isFull = underWay >= requestsMax - left(of: requestsMax)
        var least: (place: Int, cost: Int)?
        for place in 0..<rows[attempt.rawValue].count {
            let app = rows[attempt.rawValue][place]
            guard app.underWay < least?.cost ?? .max, !isLaneFull || app[attempt].underWay < share(of: places),
                !isFull || app.underWay < share(of: requestsMax)
            else { continue }
            least = (place, app.underWay)
            if app.underWay == 0 { break }
        }
        return least
    }

    /// The places that are kept for apps that have less than their share of them.
    private func left(of places: Int) -> Int { appCount > 1 ? places / 4 : 0 }

    /// What each app may have of them.
    private func share(of places: Int) -> Int { max(1, places / 4 / max(1, appCount)) }

    /// Lets the app at that place of the row send, and then go behind all others.
    private mutating func take(_ place: Int, _ attempt: Attempt) -> (Endpoint, Attempt)? {
        let app = rows[attempt.rawValue].remove(at: place)
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
