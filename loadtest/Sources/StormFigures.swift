/// One time that a crowd came.
struct StormRound: Codable {
    /// From when all were due until the last was current.
    var seconds = 0.0
    var queries = HubCounters.Queries()
    /// CPU seconds of the hub, where its process is known, and of the load tester: from the drop until all are there.
    var hubCPU: Double?
    var ownCPU = 0.0
    /// Of the untouched client's events.
    var witness = Latencies()
    /// Connections that the kernel did not queue: their client's kernel asks again after a second.
    var overflows = 0
    var trouble = Crowd.Trouble()
}

/// A storm in the clear, or by TLS.
struct StormSide: Codable {
    let clients: Int
    let channels: Int
    var bare: [StormRound] = []
    /// To a hub that knew none of their channels.
    var first = StormRound()
    var back: [StormRound] = []
    /// All had missed events.
    var missed = StormRound()
    var recovered = 0
    /// Positions that the hub did not continue from, by its reason.
    var lost: [String: Int] = [:]
    /// How often it could not read the log, and was asked again.
    var unavailable = 0
    /// Events lost, doubled or another user's, and clients that ended elsewhere than the database.
    var astray = 0

    init(clients: Int, channels: Int) {
        self.clients = clients
        self.channels = channels
    }

    /// The time to be current against that of the bare handshakes.
    func ratio(_ rounds: [StormRound]) -> Double {
        let bare = Spread(bare.map(\.seconds)).median
        return bare > 0 ? Spread(rounds.map(\.seconds)).median / bare : 0
    }

    /// Resumes for each query, where nothing was missed.
    func resumesPerQuery(_ round: StormRound) -> Double {
        Double(clients * channels) / Double(max(1, round.queries.all))
    }
}

/// The results of `storm`.
struct StormFigures: Codable {
    let seed: UInt64
    /// The untouched client's events before the storms.
    var quiet = Latencies()
    var clear: StormSide?
    var tls: StormSide?
    /// Resident bytes of the hub.
    var memoryBefore: Int?
    var memoryPeak: Int?

    init(seed: UInt64) {
        self.seed = seed
    }

    /// Resumes that one query may serve at least, where nothing was missed.
    static let resumesPerQueryMin = 500.0

    /// What must never be, whatever else the machine does.
    var fault: String? {
        for side in [clear, tls] {
            guard let side else { continue }
            if side.astray > 0 { return "events went astray: \(side.astray)" }
            if !side.lost.isEmpty { return "positions were not continued from: \(side.lost)" }
            for round in side.bare + [side.first] + side.back + [side.missed] {
                let trouble = round.trouble
                if !trouble.isNone { return "clients were turned away: \(trouble)" }
            }
            // A small crowd has a few queries, however few it is.
            for round in side.back
            where round.queries.all > 4 && side.resumesPerQuery(round) < Self.resumesPerQueryMin {
                return "\(round.queries.all) queries for \(side.clients * side.channels) resumes"
            }
        }
        return nil
    }

    func print() {
        say("storms, seed \(seed); the untouched client's events undisturbed, ms: p50 | p99")
        say("| \(quiet.cells) |")
        for (name, side) in [("in the clear", clear), ("by TLS", tls)] {
            guard let side else { continue }
            say("\(side.clients) clients \(name), \(side.channels) channels each, all back after one second:")
            say(
                "| what | seconds until all are there | to bare | CPU s of hub, load tester | queries | resumes for each "
                    + "| untouched p99, ms | overflows |")
            say("|---|---|---|---|---|---|---|---|")
            row("bare handshakes", side.bare, side, resumes: false)
            row("the hub knows no channel", [side.first], side)
            row("nothing missed", side.back, side)
            row("all missed events", [side.missed], side)
            if side.unavailable > 0 { say("answers that the log cannot be read, asked again: \(side.unavailable)") }
        }
        if let memoryBefore, let memoryPeak {
            say(
                "the hub's memory, MiB: \(decimal(Double(memoryBefore) / 1_048_576, 1)) before, "
                    + "\(decimal(Double(memoryPeak) / 1_048_576, 1)) at most")
        }
    }

    private func row(_ name: String, _ rounds: [StormRound], _ side: StormSide, resumes: Bool = true) {
        let queries = Spread(rounds.map { Double($0.queries.all) })
        let each = rounds.map(side.resumesPerQuery).min() ?? 0
        let p99 = rounds.flatMap(\.witness.p99).max() ?? 0
        let overflows = rounds.map(\.overflows).max() ?? 0
        let hub = decimal(Spread(rounds.compactMap(\.hubCPU)).median, 2)
        let own = decimal(Spread(rounds.map(\.ownCPU)).median, 2)
        say(
            "| \(name) | \(Spread(rounds.map(\.seconds)).text(digits: 2)) | \(decimal(side.ratio(rounds), 2))"
                + " | \(hub), \(own) | \(queries.text()) | \(resumes ? decimal(each) : "–") | \(decimal(p99 / 1000, 1)) | \(overflows) |"
        )
    }
}
