/// What clients noticed of the deploys of one way.
struct RollingSide: Codable {
    /// How long each took: until the old hub had ended, and all clients were back.
    var seconds: [Double] = []
    /// From the close to the list of members.
    var absences = AbsenceFigures()
    var trouble = Crowd.Trouble()
    /// Publishes, and those that were not answered with 200, by the answer.
    var published = 0
    var refused: [String: Int] = [:]
    var deliveries = 0
    /// What clients were told that is not so, by what it was.
    var faults: [String: Int] = [:]

    /// What must never be, whatever else the machine does.
    var fault: String? {
        if !faults.isEmpty { return "clients were told what is not so: \(faults)" }
        if !refused.isEmpty { return "publishes were refused: \(refused)" }
        // 1001: a hub that ends, whose port goes with it, has its clients come back after a second.
        return trouble.fault(expecting: ["4200", "1001"])
    }
}

/// The results of `rolling`.
struct RollingFigures: Codable {
    let seed: UInt64
    let clients: Int
    let hubs: Int
    /// By way.
    var ways: [String: RollingSide] = [:]

    var fault: String? {
        ways.sorted { $0.key < $1.key }.compactMap { way, side in side.fault.map { "\(way): \($0)" } }.first
    }

    func print() {
        say("\(hubs) hubs, \(clients) members, seed \(seed); seconds")
        say(
            "| way | deploys of each, s | came back | away p50 | p99 | longest | published, refused | deliveries | faults |"
        )
        say("|---|---|---|---|---|---|---|---|---|")
        for (way, side) in ways.sorted(by: { $0.key < $1.key }) {
            say(
                "| \(way) | \(side.seconds.count): \(Spread(side.seconds).text(digits: 2)) | \(side.absences.returns)"
                    + " | \(side.absences.text)"
                    + " | \(side.published), \(side.refused.values.reduce(0, +)) | \(side.deliveries)"
                    + " | \(side.faults.values.reduce(0, +)) |")
        }
    }
}
