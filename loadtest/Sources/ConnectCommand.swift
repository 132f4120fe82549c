import ArgumentParser
import Clock
import Reactor

/// `loadtest connect`: connections per CPU-second of a server, in alternating rounds of one run.
struct ConnectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect", abstract: "Connections per CPU-second: accepted, upgraded, signed in, subscribed.",
        discussion: """
            Each device of a hub is its own user, signs in and subscribes to two channels. A bare sender's is only \
            upgraded, which says what channel it is on. So is Nchan's. Closing is not counted.
            """)

    @OptionGroup var options: HubOptions
    @OptionGroup var servers: ServerOptions

    @Option(help: "Connections in each round.")
    var connections = 2000

    @Option(help: "Rounds.")
    var rounds = 7

    func run() throws {
        guard (1...Limits.connectionsMax).contains(connections), rounds > 0 else {
            throw LoadFailure("--connections from 1 to \(Limits.connectionsMax), --rounds above zero")
        }
        let servers = try servers.measured()
        var figures = ConnectFigures(
            connections: connections, servers: servers.map(\.name),
            bare: servers.first { $0.kind == .bare }?.name)
        // Warm-up: a server's first connections cost more, since its tables grow.
        for server in servers { _ = try measure(server) }
        try servers.inTurns(rounds) { figures.add(try measure($0), of: $0.name) }
        figures.print()
        try write(figures, to: options.json)
    }

    private func measure(_ server: MeasuredServer) throws -> (perCPUSecond: Double, perSecond: Double) {
        let swarm = try options.swarm(of: server)
        let cpuBefore = server.meter?.cpuSeconds() ?? 0
        let began = Instant.read()
        try swarm.open(connections, perUser: 1, topics: RowKind.allCases.count, progress: ProgressLine())
        let cpu = (server.meter?.cpuSeconds() ?? 0) - cpuBefore
        // The first cannot resume, and a few of many concurrent ones may not.
        guard !server.kind.resumes || swarm.resumedCount * 10 >= connections * 9 else {
            throw LoadFailure("\(server.name): \(swarm.resumedCount) of \(connections) connections resumed a session")
        }
        let seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        swarm.closeAll()
        server.meter?.waitUntilIdle()
        return (cpu > 0 ? Double(connections) / cpu : 0, Double(connections) / seconds)
    }
}

extension HubOptions {
    /// A swarm whose devices are each their own user on all topics; not connected yet.
    func swarm(of server: MeasuredServer) throws -> Swarm {
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let names = Names(run: String(seed, radix: 36), topics: RowKind.allCases.map(\.topic))
        let target = server.target(appKey: appKey)
        let swarm = try Swarm(
            server.address, target: target.path, loop: try EventLoop(), script: server.script(credentials, names),
            seed: seed)
        swarm.isTargetNumbered = target.isNumbered
        return swarm
    }
}

struct ConnectFigures: Codable {
    let connections: Int
    let servers: [String]
    /// The server that the others are compared with.
    let bare: String?
    /// By server, one figure for each round.
    var perCPUSecond: [String: [Double]] = [:]
    var perSecond: [String: [Double]] = [:]

    mutating func add(_ figure: (perCPUSecond: Double, perSecond: Double), of server: String) {
        perCPUSecond[server, default: []].append(figure.perCPUSecond)
        perSecond[server, default: []].append(figure.perSecond)
    }

    func print() {
        let to = bare.map { "to \($0), round by round" } ?? "–"
        say("\(connections) connections a round, median (least–most)")
        say("| server | connections per CPU-second | \(to) | connections/s | rounds |")
        say("|---|---|---|---|---|")
        for server in servers {
            guard let figures = perCPUSecond[server] else { continue }
            let others = bare.flatMap { $0 == server ? nil : perCPUSecond[$0] }
            let ratio = others.flatMap { Spread(ratios: figures, to: $0) }
            say(
                "| \(server) | \(Spread(figures).text()) | \(ratio?.text(digits: 3) ?? "–")"
                    + " | \(Spread(perSecond[server] ?? []).text()) | \(figures.count) |")
        }
    }
}
