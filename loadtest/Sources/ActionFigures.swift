import Histogram

/// Percentiles of several rounds, in microseconds.
struct Latencies: Codable {
    private(set) var p50: [Double] = []
    private(set) var p99: [Double] = []

    /// Adds a round's times, in nanoseconds.
    mutating func add(_ times: Histogram<UInt64>) {
        p50.append(Double(times.valueAtPercentile(50)) / 1000)
        p99.append(Double(times.valueAtPercentile(99)) / 1000)
    }

    /// Median, minimum and maximum of both, in milliseconds, as two table cells.
    var cells: String { "\(Spread(p50).text(unit: 1000, digits: 2)) | \(Spread(p99).text(unit: 1000, digits: 2))" }
    var medians: String {
        "\(decimal(Spread(p50).median / 1000, 2)) | \(decimal(Spread(p99).median / 1000, 2))"
    }
}

struct ActionFigures: Codable {
    struct Side: Codable {
        private(set) var perSecond: [Double] = []
        private(set) var answers = Latencies()

        mutating func add(count: Int, seconds: Double, answers: Histogram<UInt64>) {
            perSecond.append(Double(count) / seconds)
            self.answers.add(answers)
        }
    }

    struct Comparison: Codable {
        var hub = Side()
        var pgbench = Side()
        /// From an action's due time to its event at the user's devices.
        var deliveries = Latencies()
        /// CPU time per elapsed time of the hub and of the load tester, in cores.
        var hubShare: [Double] = []
        var ownShare: [Double] = []

        /// Hub relative to pgbench, by round; nil without pgbench.
        var ratio: Spread? {
            guard !pgbench.perSecond.isEmpty, pgbench.perSecond.count == hub.perSecond.count else { return nil }
            return Spread(zip(hub.perSecond, pgbench.perSecond).map { $0 / $1 })
        }
    }

    let seed: UInt64
    let users: Int
    let devices: Int
    let connections: Int
    let inFlight: Int
    var saturated = Comparison()
    /// Actions a second of `paced`.
    var rate = 0.0
    var paced = Comparison()

    func print() {
        say(
            "\(connections) connections to PostgreSQL, \(users) users, \(devices) devices, \(inFlight) actions in flight,"
                + " \(saturated.hub.perSecond.count) rounds; median (least–most), seed \(seed)")
        say("| load | by | actions/s | answer p50, ms | answer p99, ms | hub CPU | client CPU |")
        say("|---|---|---|---|---|---|---|")
        for (name, comparison) in [("saturated", saturated), ("\(decimal(rate))/s", paced)] {
            say(
                "| \(name) | hub | \(Spread(comparison.hub.perSecond).text()) | \(comparison.hub.answers.cells)"
                    + " | \(share(comparison.hubShare)) | \(share(comparison.ownShare)) |")
            guard !comparison.pgbench.perSecond.isEmpty else { continue }
            say(
                "| \(name) | pgbench | \(Spread(comparison.pgbench.perSecond).text())"
                    + " | \(comparison.pgbench.answers.cells) | | |")
        }
        say("From an action's time to its event at the user's devices, at \(decimal(rate))/s, ms: p50 | p99")
        say("| \(paced.deliveries.cells) |")
        if let ratio = saturated.ratio {
            say("hub to pgbench, round by round: \(ratio.text(digits: 2))")
        }
    }

    private func share(_ values: [Double]) -> String {
        values.isEmpty ? "unknown (--pid)" : decimal(Spread(values).median, 2)
    }
}
