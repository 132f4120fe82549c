import Clock
import HubEngine
import Metrics
import RESP

/// What hubs have of apps that are limited, as each says with its beat, and hears with the answer. The first loop's heart
/// has one.
final class AppShares {
    /// Apps of which each hub says what it has: their connections or publishes are limited.
    private var said: [App] = []
    /// Apps whose channels are limited, of which each bucket says how many it has.
    private var counted: [App] = []
    private var channels: [Int: [String: Int]] = [:]
    private var totals: [String: Int] = [:]
    private var taken: [String: UInt64] = [:]
    private var saidAt: Instant?

    /// These apps are served from now on.
    func serve(_ apps: [App]) {
        // Each bucket says its counts again within a second.
        (channels, totals) = ([:], [:])
        said = apps.filter { $0.limits.connectionsMax != nil || $0.limits.publishesPerSecond > 0 }
        counted = apps.filter { $0.limits.channelsMax != nil }
    }

    /// Nothing can be heard for a while.
    func forget() {
        (channels, totals) = ([:], [:])
        for app in said + counted { app.counts.elsewhere.forget() }
    }

    // MARK: Connections and publishes

    /// What this hub has: a line for each app that has something, with its connections and publishes per second.
    func say(at now: Instant) -> String {
        let seconds = max(0.1, saidAt.map { Double(now.duration(since: $0).wholeNanoseconds) / 1e9 } ?? 1)
        saidAt = now
        var lines: [String] = []
        for app in said {
            let all = app.counts.publishesTaken.count
            let publishes = (Double(all - (taken.updateValue(all, forKey: app.id) ?? all)) / seconds).rounded(.up)
            let connections = app.counts.connections.count
            if connections > 0 || publishes > 0 { lines.append("\(app.id) \(connections) \(Int(publishes))") }
        }
        return lines.joined(separator: "\n")
    }

    /// What each of the other hubs has.
    func hear(_ hubs: [RESPValue]) {
        var all: [Substring: (connections: Int, publishes: [Int])] = [:]
        for case .bytes(let lines) in hubs {
            for line in String(decoding: lines, as: UTF8.self).split(separator: "\n") {
                let words = line.split(separator: " ")
                guard words.count == 3, let connections = Int(words[1]), let publishes = Int(words[2]) else { continue }
                all[words[0], default: (0, [])].connections += connections
                all[words[0], default: (0, [])].publishes.append(publishes)
            }
        }
        for app in said {
            let others = all[app.id[...]] ?? (0, [])
            app.counts.elsewhere.heard(connections: others.connections, publishes: others.publishes, of: app)
        }
    }

    // MARK: Channels

    /// Ids of the apps whose channels each beat asks for.
    var asked: [String] { counted.map(\.id) }

    /// So many channels the bucket has of each of these apps.
    func hear(_ counts: [RESPValue], of asked: [String], in bucket: Int) {
        var known: [String: Int] = [:]
        for case (let app, .bytes(let digits)) in zip(asked, counts) {
            known[app] = Int(String(decoding: digits, as: UTF8.self))
        }
        let before = channels.updateValue(known, forKey: bucket) ?? [:]
        for app in counted {
            totals[app.id, default: 0] += (known[app.id] ?? 0) - (before[app.id] ?? 0)
            app.counts.elsewhere.heard(channels: totals[app.id] ?? 0)
        }
    }
}
