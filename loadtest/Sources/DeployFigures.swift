import Histogram

/// What the devices noticed of the deploys of one way.
struct DeploySide: Codable {
    /// Of events that SQL made, from sending COMMIT until the event was at the device's socket.
    struct Times: Codable {
        let count: Int
        let p50Milliseconds: Double
        let p99Milliseconds: Double

        init(_ times: Histogram<UInt64>) {
            count = Int(times.totalCount)
            p50Milliseconds = Double(times.valueAtPercentile(50)) / 1e6
            p99Milliseconds = Double(times.valueAtPercentile(99)) / 1e6
        }
    }

    let devices: Int
    let users: Int
    /// How long each deploy took: until the old hub had ended, and all were current again.
    var seconds: [Double] = []
    /// From the close to being current.
    var absences = AbsenceFigures()
    var trouble = Crowd.Trouble()
    /// By the kind of time, for devices that were there from the commit to the event.
    var events: [String: Times] = [:]
    var deliveries = 0
    var faults = Ledger.Faults()
    /// Positions that a hub did not continue from, by its reason.
    var lost: [String: Int] = [:]
    /// How often one could not read the log, and was asked again.
    var unavailable = 0
    /// All were applied, once each.
    var actions = 0
    var repeatedActions = 0

    init(_ plan: DeployRun.Plan) {
        devices = plan.devices
        users = plan.users
    }

    /// The p99 of those still connected against the undisturbed. Zero where the deploy left nobody connected long enough to
    /// get an event.
    var ratio: Double {
        guard let quiet = events[Timeline.Kind.quiet.rawValue],
            let deploying = events[Timeline.Kind.deploying.rawValue],
            quiet.p99Milliseconds > 0, deploying.count > 0
        else { return 0 }
        return deploying.p99Milliseconds / quiet.p99Milliseconds
    }

    /// What must never be, whatever else the machine does.
    var fault: String? {
        if !faults.isZero { return "events went astray: \(faults)" }
        if !lost.isEmpty { return "positions were not continued from: \(lost)" }
        return trouble.fault(expecting: ["4200"])
    }
}

/// The results of `deploy`.
struct DeployFigures: Codable {
    let seed: UInt64
    /// By way.
    var ways: [String: DeploySide] = [:]

    init(seed: UInt64) {
        self.seed = seed
    }

    var fault: String? {
        ways.sorted { $0.key < $1.key }.compactMap { way, side in side.fault.map { "\(way): \($0)" } }.first
    }

    func print() {
        say(
            "deploys, seed \(seed); seconds; events in ms, and while deploying: of those still connected, of those back"
        )
        say(
            "| way | deploys of each, s | away p50 | p99 | longest | refused | undisturbed: events | p50 | p99 "
                + "| still connected: events | p50 | p99 | ratio of p99 | back: events | p50 | p99 | deliveries "
                + "| actions, of them sent again |")
        say("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
        for (way, side) in ways.sorted(by: { $0.key < $1.key }) {
            func times(_ kind: Timeline.Kind) -> String {
                guard let times = side.events[kind.rawValue], times.count > 0 else { return "0 | – | –" }
                return
                    "\(times.count) | \(decimal(times.p50Milliseconds, 1)) | \(decimal(times.p99Milliseconds, 1))"
            }
            say(
                "| \(way), \(side.devices) devices | \(side.seconds.count): \(Spread(side.seconds).text(digits: 2))"
                    + " | \(side.absences.text)"
                    + " | \(side.trouble.refused) | \(times(.quiet)) | \(times(.deploying))"
                    + " | \(side.ratio > 0 ? decimal(side.ratio, 2) : "–") | \(times(.returned))"
                    + " | \(side.deliveries) | \(side.actions), \(side.repeatedActions) |")
        }
    }
}
