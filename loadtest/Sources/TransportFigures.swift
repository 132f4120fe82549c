struct TransportFigures: Codable {
    struct Rounds: Codable {
        var deliveriesPerCPUSecond: [Double] = []
        var deliveriesPerSecond: [Double] = []
        var p50Microseconds: [Double] = []
        var p99Microseconds: [Double] = []
        /// For each round, the latency at each of `percentiles`.
        var curveMicroseconds: [[Double]] = []
        /// CPU time per elapsed time of the server and of the load tester, in cores.
        var serverShare: [Double] = []
        var ownShare: [Double] = []
        /// Messages not requested when due.
        var late: [Int] = []

        mutating func add(_ outcome: Receivers.Outcome) {
            deliveriesPerCPUSecond.append(
                outcome.serverCPUSeconds > 0 ? Double(outcome.deliveries) / outcome.serverCPUSeconds : 0)
            deliveriesPerSecond.append(Double(outcome.deliveries) / outcome.seconds)
            p50Microseconds.append(outcome.p50Microseconds)
            p99Microseconds.append(outcome.p99Microseconds)
            curveMicroseconds.append(outcome.curveMicroseconds)
            serverShare.append(outcome.serverCPUSeconds / outcome.seconds)
            ownShare.append(outcome.ownCPUSeconds / outcome.seconds)
            late.append(outcome.late)
        }
    }

    let channels: Int
    let devicesPerChannel: Int
    let frameBytes: Int
    let servers: [String]
    /// The server that the others are compared with.
    let bare: String?
    let loads: [String]
    var percentiles = Receivers.percentiles
    /// By load, then by server.
    var rounds: [String: [String: Rounds]] = [:]

    mutating func add(_ outcome: Receivers.Outcome, of server: String, under load: String) {
        rounds[load, default: [:]][server, default: Rounds()].add(outcome)
    }

    func print() {
        say(
            "\(channels) × \(devicesPerChannel) devices, \(frameBytes) bytes a frame; thousands of deliveries;"
                + " median (least–most)")
        let to = bare.map { "to \($0), round by round" } ?? "–"
        say(
            "| load | server | deliveries per CPU-second | \(to) | deliveries/s | p50 ms | p99 ms | server CPU"
                + " | client CPU | rounds |")
        say("|---|---|---|---|---|---|---|---|---|---|")
        for load in loads {
            for server in servers {
                guard let rounds = rounds[load]?[server] else { continue }
                let cells = [
                    load, server, Spread(rounds.deliveriesPerCPUSecond).text(unit: 1000),
                    ratio(of: server, under: load)?.text(digits: 2) ?? "–",
                    Spread(rounds.deliveriesPerSecond).text(unit: 1000),
                    Spread(rounds.p50Microseconds).text(unit: 1000, digits: 2),
                    Spread(rounds.p99Microseconds).text(unit: 1000, digits: 2),
                    decimal(Spread(rounds.serverShare).median, 2), decimal(Spread(rounds.ownShare).median, 2),
                    "\(rounds.late.count)",
                ]
                say("| \(cells.joined(separator: " | ")) |")
            }
        }
        for load in loads {
            for server in servers {
                let late = rounds[load]?[server]?.late.reduce(0, +) ?? 0
                if late > 0 { say("\(server), \(load): \(late) messages were late; it does not carry this rate here") }
            }
        }
    }

    /// Deliveries per CPU-second relative to the bare server in the same round; nil for the bare server.
    private func ratio(of server: String, under load: String) -> Spread? {
        guard let bare, bare != server, let own = rounds[load]?[server]?.deliveriesPerCPUSecond,
            let other = rounds[load]?[bare]?.deliveriesPerCPUSecond
        else { return nil }
        return Spread(ratios: own, to: other)
    }
}

extension Spread {
    /// The ratios round by round; nil if a round lacks a value.
    init?(ratios values: [Double], to others: [Double]) {
        guard !values.isEmpty, values.count == others.count, others.allSatisfy({ $0 > 0 }) else { return nil }
        self.init(zip(values, others).map { $0 / $1 })
    }
}
