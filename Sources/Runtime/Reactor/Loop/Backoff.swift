import Clock

/// Pauses between connection attempts, with decorrelated jitter: hubs that lost one server do not return together.
package struct Backoff: Sendable {
    /// The shortest pause.
    package let floor: Duration
    /// The longest pause.
    package let ceiling: Duration
    private var previous: Duration

    /// No delay is shorter than `floor`, and none is longer than `ceiling`.
    package init(floor: Duration = .milliseconds(100), ceiling: Duration = .seconds(10)) {
        self.floor = floor
        self.ceiling = ceiling
        previous = floor
    }

    /// A random pause between `floor` and three times the previous pause, at most `ceiling`.
    package mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        let low = floor.wholeMilliseconds
        let high = max(low, min(ceiling.wholeMilliseconds, previous.wholeMilliseconds * 3))
        previous = .milliseconds(Int.random(in: low...high, using: &random))
        return previous
    }

    /// The connection held: the next loss starts with the shortest pauses again.
    package mutating func reset() {
        previous = floor
    }
}
