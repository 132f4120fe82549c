/// An app with its endpoints and its lines that may send. Of the courier's thread.
final class CourierApp {
    let id: String
    var endpoints: [Endpoint] = []
    var fresh = Lane()
    /// Of lines whose last request failed.
    var again = Lane()

    /// Lines in their order, and how many more have a request under way.
    struct Lane {
        var ready = Row<DeliveryLine>()
        var underWay = 0
        /// Whether the app waits for its turn.
        var isInTurn = false
    }

    init(_ id: String) {
        self.id = id
    }

    /// Requests under way.
    var underWay: Int { fresh.underWay + again.underWay }
}

/// Decides which line sends next: of the app that has the fewest requests under way, and among those in turn, so that one
/// whose endpoints are slow or many leaves places to the others.
///
/// Where several apps have endpoints, the last quarter of the places is left to those that have less than their even share
/// of it, and one at least: what is slow would hold it for as long as a request may take, and however many apps are slow,
/// one that has nothing under way finds a place. Lines whose last request failed have half of the places, and in them the
/// same rules: what fails may take long to fail.
///
/// Looks at the apps with lines that may send, and at no others.
struct Turns {
    private let requestsMax: Int
    /// Apps that have endpoints.
    private(set) var appCount = 0
    /// Apps with lines that may send, who sent last behind.
    private var fresh = Row<CourierApp>()
    private var again = Row<CourierApp>()
    /// Requests under way, and those of them that are made again.
    private(set) var underWay = 0
    private var againUnderWay = 0

    init(_ limits: CourierLimits) {
        requestsMax = max(1, limits.requestsMax)
    }

    /// So many apps have endpoints from now on.
    mutating func replace(apps count: Int) { appCount = count }

    mutating func makeReady(_ line: DeliveryLine) {
        line.state = .ready
        if line.failures > 0 { makeReady(line, \.again, \.again) } else { makeReady(line, \.fresh, \.fresh) }
    }

    private mutating func makeReady(
        _ line: DeliveryLine, _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>,
        _ row: WritableKeyPath<Turns, Row<CourierApp>>
    ) {
        let app = line.endpoint.app
        app[keyPath: lane].ready.append(line)
        if !app[keyPath: lane].isInTurn { self[keyPath: row].append(app) }
        app[keyPath: lane].isInTurn = true
    }

    /// Takes the turns of all lines of the endpoint, until `makeReady` gives them back.
    mutating func removeReady(of endpoint: Endpoint) {
        removeReady(of: endpoint, \.fresh, \.fresh)
        removeReady(of: endpoint, \.again, \.again)
    }

    private mutating func removeReady(
        of endpoint: Endpoint, _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>,
        _ row: WritableKeyPath<Turns, Row<CourierApp>>
    ) {
        let app = endpoint.app
        app[keyPath: lane].ready.removeAll { $0.endpoint === endpoint }
        guard app[keyPath: lane].isInTurn, app[keyPath: lane].ready.isEmpty else { return }
        app[keyPath: lane].isInTurn = false
        self[keyPath: row].removeAll { $0 === app }
    }

    /// The line that sends now, which has a place until `end`; nil where none may.
    mutating func next() -> DeliveryLine? {
        guard underWay < requestsMax else { return nil }
        let failed = first(of: \.again, again, taken: againUnderWay, of: max(1, requestsMax / 2))
        let first = first(of: \.fresh, fresh, taken: underWay, of: requestsMax)
        if let failed, failed.cost <= first?.cost ?? .max {
            againUnderWay += 1
            return take(failed.place, \.again, \.again)
        }
        return first.flatMap { take($0.place, \.fresh, \.fresh) }
    }

    /// Gives a place back.
    ///
    /// - Parameter isRetry: whether the line's last request had failed when the place was taken.
    mutating func end(_ line: DeliveryLine, isRetry: Bool) {
        underWay -= 1
        if isRetry {
            againUnderWay -= 1
            line.endpoint.app.again.underWay -= 1
        } else {
            line.endpoint.app.fresh.underWay -= 1
        }
        line.state = .idle
    }

    /// Who of the row is next, where one may: its place in it, and what it has under way.
    private func first(
        of lane: KeyPath<CourierApp, CourierApp.Lane>, _ row: Row<CourierApp>, taken: Int, of places: Int
    ) -> (place: Int, cost: Int)? {
        guard taken < places else { return nil }
        let isLaneFull = taken >= places - left(of: places)
        let isFull = underWay >= requestsMax - left(of: requestsMax)
        return row.least { app in
            guard !isLaneFull || app[keyPath: lane].underWay < share(of: places),
                !isFull || app.underWay < share(of: requestsMax)
            else { return nil }
            return app.underWay
        }
    }

    /// The places that are kept for apps that have less than their share of them.
    private func left(of places: Int) -> Int { appCount > 1 ? places / 4 : 0 }

    /// What each app may have of them.
    private func share(of places: Int) -> Int { max(1, places / 4 / max(1, appCount)) }

    /// Lets the app at that place of the row send, and then go behind all others.
    private mutating func take(
        _ place: Int, _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>,
        _ row: WritableKeyPath<Turns, Row<CourierApp>>
    ) -> DeliveryLine? {
        guard let app = self[keyPath: row].remove(at: place), let line = app[keyPath: lane].ready.first else {
            return nil
        }
        app[keyPath: lane].ready.removeFirst()
        app[keyPath: lane].isInTurn = !app[keyPath: lane].ready.isEmpty
        if app[keyPath: lane].isInTurn { self[keyPath: row].append(app) }
        app[keyPath: lane].underWay += 1
        underWay += 1
        line.state = .underWay
        return line
    }
}
