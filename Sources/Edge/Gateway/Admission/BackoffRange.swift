import Metrics

/// How long a client that asks by `sync:backoff` stays away when its connection has broken: a random time between the two.
///
/// Stock clients are all back after exactly one second. Those that ask come at half the pace at which the hub takes them, so
/// that it has time for those who are there. Nobody waits for longer than `longestMs`: a reminder may be due.
struct BackoffRange: Equatable {
    /// As long as pusher-js stays away. A hub that crashed has a successor by then.
    static let leastMs = 1_000
    static let longestMs = 10_000
    /// Connections that one loop takes in a second, about half of what was measured (`loadtest/README.md`).
    static let perSecond = 5_000
    static let perSecondByTLS = 500

    let minMs = leastMs
    let maxMs: Int

    init(connections: Int, loops: Int, usesTLS: Bool) {
        let pace = max(1, loops) * (usesTLS ? Self.perSecondByTLS : Self.perSecond)
        maxMs = min(Self.leastMs + max(Self.leastMs, max(0, connections) * 1_000 / pace), Self.longestMs)
    }

    /// For a client of this hub.
    init(for connection: ClientConnection) {
        let owner = connection.owner
        self.init(
            connections: owner.metrics.connections.level, loops: owner.router.loops,
            usesTLS: connection.transport.tls != nil)
    }
}
