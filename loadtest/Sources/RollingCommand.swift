import ArgumentParser
import Pusher

/// `loadtest rolling`: what clients notice when hubs that share Redis are replaced one after the other.
struct RollingCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rolling",
        abstract: "Replace hubs that share a Redis, one by one, under members of presence channels.",
        discussion: """
            It starts hubs of its own, which share the Redis given. Clients are members of presence channels, spread over \
            all hubs, and keep pusher-js's rules; a backend publishes all the time, once to each hub in turn. Then each hub \
            is replaced: `take-over` has a new one take its sockets, and with `restart` it ends, and a new one starts \
            where it was. Meanwhile a balancer, which this program is, sends its clients to the others. All clients stay: \
            nobody may be told that anybody has left or come. Each publish must be taken, and reach each client that was \
            there, once and in order.
            """)

    @Option(help: "The program that is deployed.")
    var program = ".build/release/carillon"

    @Option(help: "The Redis that hubs share, as redis://127.0.0.1:PORT.")
    var redis: String

    @Option(help: "The ways: take-over, restart.")
    var way: [Deploys.Way] = [.takeOver, .restart]

    @Option(help: "Hubs.")
    var hubs = 3

    @Option(help: "How often all of them are replaced, each way.")
    var rounds = 1

    @Option(help: "Clients.")
    var clients = 3_000

    @Option(help: "Clients in each channel.")
    var perChannel = 50

    @Option(help: "Publishes a second.")
    var rate = 100.0

    @Option(help: "Seconds without a deploy before each.")
    var quiet = 2.0

    @Option(help: "Write the figures to this file, as JSON.")
    var json: String?

    func run() throws {
        guard (1...Limits.connectionsMax).contains(clients), (1...100).contains(perChannel), hubs > 1, rounds > 0,
            rate > 0, quiet > 0, !way.contains(.sockets)
        else {
            throw LoadFailure(
                "--clients up to \(Limits.connectionsMax), --per-channel up to 100, --hubs above one, --way take-over or "
                    + "restart, all other numbers above zero")
        }
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        var figures = RollingFigures(seed: seed, clients: clients, hubs: hubs)
        for (number, way) in way.enumerated() {
            let run = try RollingRun(self, way, seed: seed &+ UInt64(number))
            defer { run.end() }
            figures.ways[way.rawValue] = try run.run()
        }
        figures.print()
        try write(figures, to: json)
        if let fault = figures.fault { throw LoadFailure("\(fault) (seed \(seed))") }
    }
}

/// What clients noticed of the deploys of one way.
struct RollingSide: Codable {
    /// How long each took: until the old hub had ended, and all clients were back.
    var seconds: [Double] = []
    /// How often clients came back, and how long they were away: from the close to the list of members.
    var returns = 0
    var absenceP50 = 0.0
    var absenceP99 = 0.0
    var absenceMost = 0.0
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
        if trouble.refused + trouble.gone > 0 { return "clients were turned away: \(trouble)" }
        // 1001: a hub that ends, whose port goes with it, has its clients come back after a second.
        if trouble.ended.keys.contains(where: { !["4200", "1001"].contains($0) }) {
            return "clients were cut off: \(trouble)"
        }
        return nil
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
                "| \(way) | \(side.seconds.count): \(Spread(side.seconds).text(digits: 2)) | \(side.returns)"
                    + " | \(decimal(side.absenceP50, 2)) | \(decimal(side.absenceP99, 2)) | \(decimal(side.absenceMost, 2))"
                    + " | \(side.published), \(side.refused.values.reduce(0, +)) | \(side.deliveries)"
                    + " | \(side.faults.values.reduce(0, +)) |")
        }
    }
}
