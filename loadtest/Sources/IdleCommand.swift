import ArgumentParser
import Clock
import Reactor

/// `loadtest idle`: the cost of an idle connection.
struct IdleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Open connections, each its own user on two channels; weigh the server.",
        discussion: "Resident memory after all have come, less that before: a server is weighed once, and started anew."
    )

    @OptionGroup var options: HubOptions

    @Option(help: "Another server than --hub or --dir, as NAME=KIND:PORT:PID (see `connect`).")
    var server: String?

    @Option(help: "Connections.")
    var connections = 10_000

    @Option(help: "Connections opened before them and kept: the first of all cost more, for tables grow.")
    var first = 0

    @Option(help: "A shell command to run when those have subscribed.")
    var onceFirst: String?

    func run() throws {
        guard connections > 0, first >= 0, first + connections <= Limits.connectionsMax else {
            throw LoadFailure("--connections and --first: up to \(Limits.connectionsMax) together")
        }
        let server = try server.map { try MeasuredServer($0) } ?? MeasuredServer(options)
        let swarm = try options.swarm(of: server)
        try swarm.open(first, perUser: 1, topics: 2, progress: ProgressLine())
        try options.run(onceFirst)
        let bytesBefore = server.meter?.residentBytes()
        let cpuBefore = server.meter?.cpuSeconds()
        let began = Instant.read()
        try swarm.open(first + connections, perUser: 1, topics: 2, progress: ProgressLine())
        let seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        var figures = IdleFigures(connections: connections, seconds: seconds)
        if let bytesBefore, let bytes = server.meter?.residentBytes() {
            figures.residentBytesPerConnection = Double(bytes - bytesBefore) / Double(connections)
        }
        if let cpuBefore, let cpu = server.meter?.cpuSeconds() {
            figures.connectionsPerServerCPUSecond = Double(connections) / (cpu - cpuBefore)
        }
        if swarm.address.security != nil { figures.resumed = swarm.resumedCount }
        figures.print()
        try write(figures, to: options.json)
        try options.run(options.onceOpen)
        try options.run(options.onceDone)
        if let failure = swarm.firstFailure { throw LoadFailure(failure) }
        swarm.closeAll()
    }
}

struct IdleFigures: Codable {
    let connections: Int
    /// Until all were subscribed.
    let seconds: Double
    var residentBytesPerConnection: Double?
    /// Accepted, upgraded, signed in and subscribed to two channels.
    var connectionsPerServerCPUSecond: Double?
    /// Connections that resumed a TLS session; nil in the clear.
    var resumed: Int?

    func print() {
        say("\(connections) connections, each its own user on two channels, in \(decimal(seconds, 1)) s")
        if let resumed { say("with TLS, \(resumed) of them resumed") }
        if let residentBytesPerConnection {
            say("\(decimal(residentBytesPerConnection)) bytes of resident memory for each")
        }
        if let connectionsPerServerCPUSecond {
            say("\(decimal(connectionsPerServerCPUSecond)) connections per CPU-second of the hub")
        }
    }
}
