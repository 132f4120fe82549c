import Clock

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
        let low = floor.wholeMilliseconds
        let high = max(low, min(ceiling.wholeMilliseconds, previous.wholeMilliseconds * 3))
        previous = .milliseconds(Int.random(in: low...high, using: &random))
        return previous
    }

    /// The connection held: the next loss begins with the shortest pauses again.
    package mutating func reset() {
        previous = floor
    }
}
