/// Pauses between attempts to connect: decorrelated jitter, so that hubs that lost one server together do not come
/// back together, and so that a short outage costs little.
package struct Backoff: Sendable {
    /// The shortest pause.
    package let floor: Duration
    /// The longest pause.
    package let ceiling: Duration
    private var previous: Duration

    package init(floor: Duration = .milliseconds(100), ceiling: Duration = .seconds(10)) {
        self.floor = floor
        self.ceiling = ceiling
        previous = floor
    }

    /// A pause between the shortest and three times the one before, at most the longest.
    package mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        let low = floor.milliseconds
        let high = max(low, min(ceiling.milliseconds, previous.milliseconds * 3))
        previous = .milliseconds(Int64.random(in: low...high, using: &random))
        return previous
    }

    /// The connection held: the next loss begins with the shortest pauses again.
    package mutating func reset() {
        previous = floor
    }
}

extension Duration {
    /// Whole milliseconds, clamped to a range in which three times the value is a number.
    fileprivate var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return min(max(seconds, 0), 1_000_000_000) * 1000 + max(attoseconds, 0) / 1_000_000_000_000_000
    }
}
