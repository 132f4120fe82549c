import Clock
import Synchronization

/// What other hubs, with which this one shares Redis, have of an app, as it has heard: about a second ago. Nothing, where it
/// is alone. Any thread.
package final class UseElsewhere: Sendable {
    private let otherConnections = Atomic<Int>(0)
    private let publishShare = Atomic<Int>(.max)
    private let channels = Atomic<Int>(0)

    /// Nothing was heard.
    package init() {}

    /// Other hubs are gone, or cannot be heard.
    package func forget() {
        otherConnections.store(0, ordering: .relaxed)
        publishShare.store(.max, ordering: .relaxed)
        channels.store(0, ordering: .relaxed)
    }

    /// Other hubs have so many connections together. `publishes` has one number for each of them, a second.
    package func heard(connections: Int, publishes: [Int], of app: App) {
        otherConnections.store(connections, ordering: .relaxed)
        if app.limits.publishesPerSecond > 0 { share(publishes.filter { $0 > 0 }, of: app.limits.publishesPerSecond) }
    }

    /// What others leave, but never less than an equal part. Half of the way at a time: hubs that all follow each other's
    /// last second would swing.
    private func share(_ others: [Int], of limit: Int) {
        let last = min(publishShare.load(ordering: .relaxed), limit)
        let equal = limit / (others.count + 1)
        let left = (last + limit - others.reduce(0, +)) / 2
        publishShare.store(others.isEmpty ? .max : max(1, equal, left), ordering: .relaxed)
    }

    /// All hubs together have so many channels of the app.
    package func heard(channels count: Int) { channels.store(count, ordering: .relaxed) }

    /// Connections at other hubs.
    var connections: Int { otherConnections.load(ordering: .relaxed) }

    /// Whether no channel of the app may be made.
    package func hasChannels(_ most: Int?) -> Bool { most.map { channels.load(ordering: .relaxed) >= $0 } ?? false }

    /// This hub's part of the app's rate.
    func rate(_ limits: AppLimits) -> Rate {
        let all = limits.publishesPerSecond
        let burst = limits.publishesBurst > 0 ? limits.publishesBurst : all
        let own = min(all, publishShare.load(ordering: .relaxed))
        return Rate(perSecond: own, burst: own == all ? burst : max(1, burst * own / all))
    }
}
