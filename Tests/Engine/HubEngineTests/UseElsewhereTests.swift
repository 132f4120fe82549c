import Clock
import Pusher
import Testing

@testable import HubEngine

/// What several hubs let in together, of an app that is limited, as each hears of the others once a second.
@Suite struct UseElsewhereTests {
    private static func app(_ change: (inout AppLimits) -> Void) -> App {
        var limits = AppLimits()
        change(&limits)
        return App(
            id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false, limits: limits)
    }

    /// Hubs that publish as fast as they may, each second, for a while. Returns what each second saw, all hubs together.
    private func published(_ wanted: [Int], limit: Int, burst: Int = 0, seconds: Int = 12) -> [Int] {
        let apps = wanted.map { _ in Self.app { ($0.publishesPerSecond, $0.publishesBurst) = (limit, burst) } }
        var now = Instant(nanoseconds: 1_000_000_000)
        var sums: [Int] = []
        for _ in 0..<seconds {
            var taken = Array(repeating: 0, count: apps.count)
            for _ in 0..<100 {
                for (index, app) in apps.enumerated() {
                    // Tries to keep up with what it wants, in a hundred steps.
                    for _ in 0..<max(1, wanted[index] / 100)
                    where taken[index] < wanted[index] && app.takePublishes(1, at: now) == nil { taken[index] += 1 }
                }
                now = now.advanced(by: .milliseconds(10))
            }
            sums.append(taken.reduce(0, +))
            for (index, app) in apps.enumerated() {
                let others = taken.indices.filter { $0 != index }.map { taken[$0] }
                app.counts.elsewhere.heard(connections: 0, publishes: others, of: app)
            }
        }
        return sums
    }

    /// Together they come to the app's rate within a few seconds, and use it, however much each of them wants.
    @Test(arguments: [
        [1_000], [1_000, 1_000], [1_000, 30], [1_000, 1_000, 0], [1_000, 1_000, 10], [500, 500, 500, 500, 500],
    ])
    func hubsShareARate(_ wanted: [Int]) {
        let sums = published(wanted, limit: 100, burst: 5)
        for sum in sums.suffix(6) { #expect((80...125).contains(sum), "\(sums)") }
    }

    /// A hub that publishes alone has all of it, also after others were there.
    @Test func theLastOneHasAllOfIt() {
        let app = Self.app { $0.publishesPerSecond = 100 }
        app.counts.elsewhere.heard(connections: 0, publishes: [100, 100], of: app)
        #expect(app.counts.elsewhere.rate(app.limits) == Rate(perSecond: 33, burst: 33))
        app.counts.elsewhere.heard(connections: 0, publishes: [0, 0], of: app)
        #expect(app.counts.elsewhere.rate(app.limits) == Rate(perSecond: 100, burst: 100))
        app.counts.elsewhere.heard(connections: 0, publishes: [100, 100, 100], of: app)
        app.counts.elsewhere.forget()
        #expect(app.counts.elsewhere.rate(app.limits) == Rate(perSecond: 100, burst: 100))
    }

    /// However many hubs there are, each lets through something.
    @Test func aSmallRateIsNotNothing() {
        let app = Self.app { $0.publishesPerSecond = 2 }
        let now = Instant(nanoseconds: 1_000_000_000)
        app.counts.elsewhere.heard(connections: 0, publishes: Array(repeating: 2, count: 9), of: app)
        #expect(app.takePublishes(1, at: now) == nil)
        #expect(app.takePublishes(1, at: now) != nil)
    }

    /// Who is too many with other hubs' connections tries again: a hub may have died, or hand over its clients.
    @Test func connectionsOfOtherHubsCount() {
        let app = Self.app { $0.connectionsMax = 5 }
        let elsewhere = app.counts.elsewhere
        #expect(app.enterConnection() == nil && app.enterConnection() == nil)
        elsewhere.heard(connections: 3, publishes: [], of: app)
        #expect(app.enterConnection() == .overCapacity)
        elsewhere.heard(connections: 9, publishes: [], of: app)
        #expect(app.enterConnection() == .overCapacity)
        // The others were dead.
        elsewhere.heard(connections: 0, publishes: [], of: app)
        for _ in 0..<3 { #expect(app.enterConnection() == nil) }
        #expect(app.enterConnection() == .overQuota, "this hub alone has all")
        #expect(app.counts.connections.count == 5)
    }
}
