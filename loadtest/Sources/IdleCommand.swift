import ArgumentParser
import Reactor

/// `loadtest idle`: what a connection costs that does nothing.
struct IdleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Open connections, each its own user on two channels, and weigh the hub.")

    @OptionGroup var options: HubOptions

    @Option(help: "Connections.")
    var connections = 10_000

    func run() throws {
        guard (1...Limits.connectionsMax).contains(connections) else {
            throw Failure("--connections: from 1 to \(Limits.connectionsMax)")
        }
        let server = try options.process()
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let script = HubScript(
            options.credentials, Names(run: String(seed, radix: 36), topics: RowKind.allCases.map(\.topic)))
        let swarm = try Swarm(
            try options.address(), target: "/app/\(options.appKey)?protocol=7&client=loadtest", loop: try EventLoop(),
            script: script, seed: seed)
        let bytesBefore = server?.residentBytes()
        let cpuBefore = server?.cpuSeconds()
        let began = Instant.read()
        try swarm.open(connections, perUser: 1, topics: 2, progress: ProgressLine())
        let seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        var figures = IdleFigures(connections: connections, seconds: seconds)
        if let bytesBefore, let bytes = server?.residentBytes() {
            figures.residentBytesPerConnection = Double(bytes - bytesBefore) / Double(connections)
        }
        if let cpuBefore, let cpu = server?.cpuSeconds() {
            figures.connectionsPerServerCPUSecond = Double(connections) / (cpu - cpuBefore)
        }
        if swarm.address.security != nil { figures.resumed = swarm.resumedCount }
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
