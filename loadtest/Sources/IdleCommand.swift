import ArgumentParser
import Reactor

/// `loadtest idle`: what a connection costs that does nothing.
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

    func run() throws {
        guard (1...Limits.connectionsMax).contains(connections) else {
            throw Failure("--connections: from 1 to \(Limits.connectionsMax)")
        }
        let server = try server.map { try MeasuredServer($0) } ?? MeasuredServer(options)
        let swarm = try options.swarm(of: server)
        let bytesBefore = server.meter?.residentBytes()
        let cpuBefore = server.meter?.cpuSeconds()
        let began = Instant.read()
        try swarm.open(connections, perUser: 1, topics: 2, progress: ProgressLine())
        let seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        var figures = IdleFigures(connections: connections, seconds: seconds)
        if let bytesBefore, let bytes = server.meter?.residentBytes() {
            figures.residentBytesPerConnection = Double(bytes - bytesBefore) / Double(connections)
        }
        if let cpuBefore, let cpu = server.meter?.cpuSeconds() {
            figures.connectionsPerServerCPUSecond = Double(connections) / (cpu - cpuBefore)
        }
        figures.print()
        try write(figures, to: options.json)
        try options.run(options.onceOpen)
        try options.run(options.onceDone)
        if let failure = swarm.firstFailure { throw Failure(failure) }
        swarm.closeAll()
    }
}

/// What `idle` found.
struct IdleFigures: Codable {
    let connections: Int
    /// Until all were subscribed.
    let seconds: Double
    var residentBytesPerConnection: Double?
    /// Accepted, upgraded, signed in and subscribed to two channels.
    var connectionsPerServerCPUSecond: Double?

    func print() {
        say("\(connections) connections, each its own user on two channels, in \(decimal(seconds, 1)) s")
        if let residentBytesPerConnection {
            say("\(decimal(residentBytesPerConnection)) bytes of resident memory for each")
        }
        if let connectionsPerServerCPUSecond {
            say("\(decimal(connectionsPerServerCPUSecond)) connections per CPU-second of the hub")
        }
    }
}
