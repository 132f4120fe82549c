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
