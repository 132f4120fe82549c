import ArgumentParser
import Reactor

/// `loadtest transport`: deliveries per CPU-second and latency of servers that send on request, in alternating rounds of
/// one run.
struct TransportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "transport", abstract: "Fan-out of a hub's core beside bare senders, without a database.",
        discussion: """
            In each round every server gets its receivers, warms up, and is measured under each load; rounds begin \
            with another server each. CPU is that of the server's process, kernel included. Latency runs from the \
            moment a message is asked for, on a control connection, to each device's read. A hub is loadtest/Core; \
            a bare sender, loadtest/Limit, must have been given the hub's frame size (--frame-size).
            """)

    @OptionGroup var options: HubOptions
    @OptionGroup var servers: ServerOptions

    @Option(help: "Channels.")
    var channels = 1

    @Option(help: "Devices on each channel.")
    var devicesPerChannel = 1000

    @Option(parsing: .upToNextOption, help: "Messages on their way at a time, one load for each.")
    var inFlight: [Int] = []

    @Option(parsing: .upToNextOption, help: "Messages a second, one load for each.")
    var rates: [Double] = []

    @Option(help: "Rounds.")
    var rounds = 7

    @Option(help: "Seconds of each measurement.")
    var seconds = 1.5

    @Option(help: "Connections that ask for messages, in turn: a server may answer each one's requests in order.")
    var triggers = 1

    @Option(help: "Bytes of a message's frame, header included, for servers that do not make it themselves.")
    var frameBytes = 512

    @Flag(help: "Only print the bytes of a message's frame of the first server, header included.")
    var frameSize = false

    func run() throws {
        let devices = channels * devicesPerChannel
        guard channels > 0, devicesPerChannel > 0, devices <= Limits.connectionsMax else {
            throw LoadFailure("channels times devices must be from 1 to \(Limits.connectionsMax)")
        }
        guard inFlight.allSatisfy({ (1...Limits.inFlightMax).contains($0) }), rates.allSatisfy({ $0 > 0 }), rounds > 0,
            (1...1_000).contains(triggers),
            (0.1...600).contains(seconds), (8...65_535).contains(frameBytes)
        else {
            throw LoadFailure(
                "--in-flight up to \(Limits.inFlightMax), --rates, --rounds and --triggers above zero, --seconds up to 600,"
                    + " --frame-bytes up to 65535")
        }
        let servers = try servers.measured()
        if frameSize { return say("\(try frameSize(of: servers[0]))") }
        let loads = inFlight.map { Receivers.Load.inFlight($0) } + rates.map { .rate($0) }
        guard !loads.isEmpty else { throw LoadFailure("which load? give --in-flight or --rates") }
        var figures = TransportFigures(
            channels: channels, devicesPerChannel: devicesPerChannel, frameBytes: frameBytes,
            servers: servers.map(\.name), bare: servers.first { $0.kind == .bare }?.name, loads: loads.map(\.name))
        try servers.inTurns(rounds) { server in
            let receivers = try receivers(
                of: server, Receivers.Shape(channels: channels, perChannel: devicesPerChannel))
            _ = try receivers.measure(loads[0], seconds: Self.warmingSeconds)
            for load in loads {
                figures.add(try receivers.measure(load, seconds: seconds), of: server.name, under: load.name)
            }
            receivers.close()
        }
        figures.print()
        try write(figures, to: options.json)
    }

    private static let warmingSeconds = 0.3

    private func receivers(of server: MeasuredServer, _ shape: Receivers.Shape) throws -> Receivers {
        try Receivers(
            server, shape, options, bodyBytes: max(0, frameBytes - (frameBytes < 128 ? 2 : 4)),
            inFlight: max(Limits.inFlightMax / 16, inFlight.max() ?? 1), triggerCount: triggers, loop: try EventLoop(),
            seed: UInt64.random(in: 1...UInt64(UInt32.max)), progress: ProgressLine())
    }

    private func frameSize(of server: MeasuredServer) throws -> Int {
        let receivers = try receivers(of: server, Receivers.Shape(channels: 1, perChannel: 1))
        _ = try receivers.measure(.inFlight(1), seconds: 0.1)
        let payload = receivers.lastMessageBytes
        receivers.close()
        return payload + (payload < 126 ? 2 : payload < 65_536 ? 4 : 10)
    }
}

struct ServerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A server on this machine; again for each.",
            discussion: """
                NAME=KIND:PORT:PID[:CONTROL], with a kind of hub, tls (a hub, by TLS), resumed (a hub, by TLS with the \
                first connection's session resumed), tls12 and resumed12 (the same by TLS 1.2), pusher (any server of \
                Pusher's protocol, on public channels), presence (Pusher's protocol too), bare or nchan. Several \
                processes that are one server: PORT+PORT and PID+PID.
                """))
    var server: [String] = []

    /// The named servers: at least one, with distinct names.
    func measured() throws -> [MeasuredServer] {
        let servers = try server.map { try MeasuredServer($0) }
        guard !servers.isEmpty, Set(servers.map(\.name)).count == servers.count else {
            throw LoadFailure("--server is needed, each with a name of its own")
        }
        return servers
    }
}

extension [MeasuredServer] {
    /// Measures each server once per round, with another one first each time.
    func inTurns(_ rounds: Int, _ measure: (MeasuredServer) throws -> Void) rethrows {
        for round in 0..<rounds {
            for index in indices { try measure(self[(index + round) % count]) }
        }
    }
}
