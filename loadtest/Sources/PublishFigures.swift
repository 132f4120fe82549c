struct PublishFigures: Codable {
    struct Outcome {
        var requests: Int
        var seconds: Double
        var serverCPUSeconds: Double
        var ownCPUSeconds: Double
    }

    struct Rounds: Codable {
        /// Empty if the server's process is unknown.
        var requestsPerCPUSecond: [Double] = []
        var requestsPerSecond: [Double] = []
        /// CPU time per elapsed time of the server and of the load tester, in cores.
        var serverShare: [Double] = []
        var ownShare: [Double] = []

        mutating func add(_ outcome: Outcome) {
            requestsPerSecond.append(Double(outcome.requests) / outcome.seconds)
            serverShare.append(outcome.serverCPUSeconds / outcome.seconds)
            ownShare.append(outcome.ownCPUSeconds / outcome.seconds)
            guard outcome.serverCPUSeconds > 0 else { return }
            requestsPerCPUSecond.append(Double(outcome.requests) / outcome.serverCPUSeconds)
        }
    }

    let connections: Int
    let subscribers: Int
    let dataBytes: Int
    let pipelined: [Int]
    /// By pipeline depth.
    var publish: [Int: Rounds] = [:]
    /// The route that does nothing.
    var bare: [Int: Rounds] = [:]

    mutating func add(_ outcome: Outcome, _ isBare: Bool, _ depth: Int) {
        if isBare {
            bare[depth, default: Rounds()].add(outcome)
        } else {
            publish[depth, default: Rounds()].add(outcome)
        }
    }

    func print() {
        say(
            "\(connections) connections kept alive, \(dataBytes) bytes of data, \(subscribers) subscribers;"
                + " thousands of requests; median (least–most)")
        say(
            "| sent ahead | route | requests per CPU-second | to the bare one, round by round | requests/s | server CPU"
                + " | client CPU | rounds |")
        say("|---|---|---|---|---|---|---|---|")
        for depth in pipelined {
            for (name, rounds) in [("bare", bare[depth]), ("publish", publish[depth])] {
                guard let rounds else { continue }
                let perCPU = Spread(rounds.requestsPerCPUSecond)
                let ratio =
                    name == "bare"
                    ? nil
                    : bare[depth].flatMap { Spread(ratios: rounds.requestsPerCPUSecond, to: $0.requestsPerCPUSecond) }
                let cells = [
                    "\(depth)", name, perCPU.rounds > 0 ? perCPU.text(unit: 1000, digits: 1) : "unknown (--pid)",
                    ratio?.text(digits: 2) ?? "–", Spread(rounds.requestsPerSecond).text(unit: 1000, digits: 1),
                    decimal(Spread(rounds.serverShare).median, 2), decimal(Spread(rounds.ownShare).median, 2),
                    "\(rounds.requestsPerSecond.count)",
                ]
                say("| \(cells.joined(separator: " | ")) |")
            }
        }
    }
}
