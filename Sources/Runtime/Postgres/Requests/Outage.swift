import Clock

/// The time without any connection of a pool. What was never sent waits a little for a database that has just gone away;
/// what comes later is told to stay away, the longer the outage the longer.
struct Outage {
    private static let patience = Duration.seconds(1)

    /// When the last connection was lost, or the first could not be made; nil while there is one.
    private var since: Instant?

    /// Whether there is no connection.
    var isOn: Bool { since != nil }

    mutating func begins(at now: Instant) { since = since ?? now }

    mutating func ends() { since = nil }

    /// Whether nothing waits any more for its end.
    func isLong(at now: Instant) -> Bool { since.map { now.duration(since: $0) >= Self.patience } ?? false }

    /// How long to stay away; five seconds at most.
    func pause(atLeast least: Duration, at now: Instant) -> Duration {
        min(max(since.map { now.duration(since: $0) } ?? .zero, least), .seconds(5))
    }
}
