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

/// Decides which line sends next: the apps in turn, so that one whose endpoints are slow or many leaves places to the others.
///
/// A quarter of the places is each app's own, and one more is taken only while all who wait have theirs. The last quarter is
/// left to apps that have less, where there are several: what is slow would hold it for as long as a request may take. Lines
/// whose last request failed have half of the places, and in them the same rules: what fails may take long to fail.
///
/// Only apps with lines that may send are in turn, and of those only few can have a quarter of the places, so that however
/// many apps there are, few are looked at.
struct Turns {
    private let requestsMax: Int
    /// Apps that have endpoints.
    private var appCount = 0
    /// Apps with lines that may send, the next first; some may have none any more.
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
    func removeReady(of endpoint: Endpoint) {
        endpoint.app.fresh.ready.removeAll { $0.endpoint === endpoint }
        endpoint.app.again.ready.removeAll { $0.endpoint === endpoint }
    }

    /// The line that sends now, which has a place until `end`; nil where none may.
    mutating func next() -> DeliveryLine? {
        guard underWay < requestsMax else { return nil }
        let line: DeliveryLine
        if let failed = next(\.again, \.again, taken: againUnderWay, of: max(1, requestsMax / 2)) {
            againUnderWay += 1
            line = failed
        } else if let first = next(\.fresh, \.fresh, taken: underWay, of: requestsMax) {
            line = first
        } else {
            return nil
        }
        underWay += 1
        line.state = .underWay
        return line
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

    private mutating func next(
        _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>, _ row: WritableKeyPath<Turns, Row<CourierApp>>,
        taken: Int, of places: Int
    ) -> DeliveryLine? {
        guard taken < places else { return nil }
        // Whoever has his share already goes behind the others. Where all have, each is where he was when all were looked at.
        for _ in 0..<self[keyPath: row].count {
            guard let app = self[keyPath: row].first else { break }
            self[keyPath: row].removeFirst()
            guard !app[keyPath: lane].ready.isEmpty else {
                app[keyPath: lane].isInTurn = false
                continue
            }
            self[keyPath: row].append(app)
            if app.underWay < share(of: requestsMax), app[keyPath: lane].underWay < share(of: places) {
                return take(app, lane)
            }
        }
        guard taken < places - left(of: places), underWay < requestsMax - left(of: requestsMax),
            let app = self[keyPath: row].first
        else { return nil }
        self[keyPath: row].removeFirst()
        self[keyPath: row].append(app)
        return take(app, lane)
    }

    private func share(of places: Int) -> Int { max(1, places / 4) }

    private func left(of places: Int) -> Int { appCount > 1 ? places / 4 : 0 }

    private func take(
        _ app: CourierApp, _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>
    ) -> DeliveryLine? {
        guard let line = app[keyPath: lane].ready.first else { return nil }
        app[keyPath: lane].ready.removeFirst()
        app[keyPath: lane].underWay += 1
        return line
    }
}
