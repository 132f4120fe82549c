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
struct Turns {
    private let requestsMax: Int
    private var apps: [CourierApp] = []
    /// The app whose turn it is.
    private var turn = 0
    /// Requests under way, and those of them that are made again.
    private(set) var underWay = 0
    private var againUnderWay = 0

    init(_ limits: CourierLimits) {
        requestsMax = max(1, limits.requestsMax)
    }

    /// - Parameter apps: those that have endpoints.
    mutating func replace(_ apps: [CourierApp]) {
        self.apps = apps
        turn = 0
    }

    func makeReady(_ line: DeliveryLine) {
        line.state = .ready
        let app = line.endpoint.app
        if line.failures > 0 { app.again.ready.append(line) } else { app.fresh.ready.append(line) }
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
        if let failed = next(\.again, taken: againUnderWay, of: max(1, requestsMax / 2)) {
            againUnderWay += 1
            line = failed
        } else if let first = next(\.fresh, taken: underWay, of: requestsMax) {
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
        _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>, taken: Int, of places: Int
    ) -> DeliveryLine? {
        guard taken < places else { return nil }
        var withoutRight: Int?
        for step in apps.indices {
            let place = (turn + step) % apps.count
            let app = apps[place]
            guard !app[keyPath: lane].ready.isEmpty else { continue }
            if app.underWay < share(of: requestsMax), app[keyPath: lane].underWay < share(of: places) {
                return take(place, lane)
            }
            withoutRight = withoutRight ?? place
        }
        guard let withoutRight, taken < places - left(of: places), underWay < requestsMax - left(of: requestsMax) else {
            return nil
        }
        return take(withoutRight, lane)
    }

    private func share(of places: Int) -> Int { max(1, places / 4) }

    private func left(of places: Int) -> Int { apps.count > 1 ? places / 4 : 0 }

    private mutating func take(
        _ place: Int, _ lane: ReferenceWritableKeyPath<CourierApp, CourierApp.Lane>
    ) -> DeliveryLine? {
        let app = apps[place]
        guard let line = app[keyPath: lane].ready.first else { return nil }
        app[keyPath: lane].ready.removeFirst()
        app[keyPath: lane].underWay += 1
        turn = (place + 1) % apps.count
        return line
    }
}
