import Clock

/// The time during which a pool has no connection. For the first second, queued requests wait for the database. New
/// requests are told to stay away, for longer the longer the outage lasts.
struct Outage {
    private static let patience = Duration.seconds(1)

    /// When the last connection was lost, or the first attempt failed; nil while a connection is up.
    private var since: Instant?

    var isOn: Bool { since != nil }

    mutating func begins(at now: Instant) { since = since ?? now }

    mutating func ends() { since = nil }

    /// Whether the outage is so long that queued requests should not wait for its end.
    func isLong(at now: Instant) -> Bool { since.map { now.duration(since: $0) >= Self.patience } ?? false }

    /// How long to stay away: as long as the outage has lasted, at least `least`, at most five seconds.
    func pause(atLeast least: Duration, at now: Instant) -> Duration {
        min(max(since.map { now.duration(since: $0) } ?? .zero, least), .seconds(5))
    }
}
