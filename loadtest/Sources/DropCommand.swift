import ArgumentParser
import Clock
import Reactor

/// `loadtest drop`: how long newcomers wait after many connections have ended at once.
struct DropCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop", abstract: "Drop many subscribed connections at once; time until new ones are subscribed.",
        discussion: """
            In each round every server gets its devices; then all of them are reset, one after the other without a \
            pause, and the newcomers connect and subscribe. Measured is the time until the last newcomer is \
            subscribed, from the last reset and from the first.
            """)

    @OptionGroup var options: HubOptions
    @OptionGroup var servers: ServerOptions

    @Option(help: "Connections that are dropped.")
    var connections = 10_000

    @Option(help: "Channels that they are on, in equal parts.")
    var channels = 100

    @Option(help: "Connections that come then.")
    var newcomers = 100

    @Option(help: "Rounds.")
    var rounds = 5

    func run() throws {
        guard connections > 0, newcomers > 0, connections + newcomers <= Limits.connectionsMax, rounds > 0,
            (1...connections).contains(channels)
        else {
            throw LoadFailure(
                "--connections and --newcomers: up to \(Limits.connectionsMax) together; --channels: up to as many as "
                    + "connections; --rounds above zero")
        }
        let servers = try servers.measured()
        var figures = DropFigures(
            connections: connections, channels: channels, newcomers: newcomers, servers: servers.map(\.name))
        try servers.inTurns(rounds) { figures.add(try measure($0), of: $0.name) }
        figures.print()
        try write(figures, to: options.json)
    }

    private func measure(_ server: MeasuredServer) throws -> (sinceLast: Double, sinceFirst: Double) {
        let crowd = try options.swarm(of: server)
        try crowd.open(
            connections, perUser: (connections + channels - 1) / channels, topics: RowKind.allCases.count,
            progress: ProgressLine())
        server.meter?.waitUntilIdle()
        let fresh = try options.swarm(of: server)
        let first = Instant.read().nanoseconds
        crowd.closeAll()
        let last = Instant.read().nanoseconds
        try fresh.open(newcomers, perUser: newcomers, topics: RowKind.allCases.count, progress: ProgressLine())
        let end = Instant.read().nanoseconds
        fresh.closeAll()
        server.meter?.waitUntilIdle()
        return (Double(end - last) / 1e6, Double(end - first) / 1e6)
    }
}

/// The results of `drop`, in milliseconds.
struct DropFigures: Codable {
    let connections: Int
    let channels: Int
    let newcomers: Int
    let servers: [String]
    /// By server, one figure for each round.
    var sinceLast: [String: [Double]] = [:]
    var sinceFirst: [String: [Double]] = [:]

    mutating func add(_ figure: (sinceLast: Double, sinceFirst: Double), of server: String) {
        sinceLast[server, default: []].append(figure.sinceLast)
        sinceFirst[server, default: []].append(figure.sinceFirst)
    }

    func print() {
        say(
            "\(connections) connections on \(channels) channels dropped at once: ms until \(newcomers) new ones are "
                + "subscribed, median (least–most)")
        say("| server | after the last was dropped | after the first | rounds |")
        say("|---|---|---|---|")
        for server in servers {
            guard let last = sinceLast[server], let first = sinceFirst[server] else { continue }
            say("| \(server) | \(Spread(last).text(digits: 1)) | \(Spread(first).text(digits: 1)) | \(last.count) |")
        }
    }
}
