import ArgumentParser
import Bytes
import Clock
import Pusher
import Reactor

/// `loadtest publish`: HTTP publishes per CPU-second of a hub, and of a route that does nothing, in alternating rounds.
struct PublishCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish", abstract: "Publishes by HTTP per CPU-second, on connections that are kept alive.",
        discussion: """
            Each request is a signed publish of one event to one public channel. With --bare the same bytes go to \
            loadtest/Core's /bare in turn, which answers 200: what is left is what the API does. With --requests so many \
            are sent once, between --once-open and --once-done, for counting instructions.
            """)

    @OptionGroup var options: HubOptions

    @Option(help: "Connections of backends.")
    var connections = 4

    @Option(parsing: .upToNextOption, help: "Requests that each sends ahead of their answers, one series for each.")
    var pipelined = [1, 16]

    @Option(help: "Devices that are subscribed to the channel.")
    var subscribers = 1

    @Option(help: "Bytes of an event's data.")
    var dataBytes = 200

    @Option(help: "Rounds.")
    var rounds = 5

    @Option(help: "Seconds of each measurement.")
    var seconds = 1.5

    @Flag(help: "Measure the route /bare of loadtest/Core beside it.")
    var bare = false

    @Option(help: "Send so many requests, and measure nothing.")
    var requests: Int?

    func run() throws {
        guard (1...Limits.connectionsMax).contains(connections), (0...Limits.connectionsMax).contains(subscribers),
            !pipelined.isEmpty, pipelined.allSatisfy({ (1...Limits.inFlightMax).contains($0) }), rounds > 0,
            (0.1...600).contains(seconds), (0...10_240).contains(dataBytes), requests ?? 1 > 0
        else {
            throw LoadFailure(
                "--connections and --subscribers up to \(Limits.connectionsMax), --pipelined up to"
                    + " \(Limits.inFlightMax), --data-bytes up to 10240, --seconds up to 600, the rest above zero")
        }
        let backend = try Backend(self)
        if let requests {
            // Warm-up: first runs cost more.
            try backend.send(connections * 10, pipelined: pipelined[0])
            try options.run(options.onceOpen)
            try backend.send(requests, pipelined: pipelined[0])
            try options.run(options.onceDone)
            say("\(requests) publishes were answered")
        } else {
            var figures = PublishFigures(
                connections: connections, subscribers: subscribers, dataBytes: dataBytes, pipelined: pipelined)
            _ = try backend.measure(isBare: false, pipelined: pipelined[0], seconds: Self.warmingSeconds)
            for _ in 0..<rounds {
                for depth in pipelined {
                    for isBare in bare ? [true, false] : [false] {
                        figures.add(
                            try backend.measure(isBare: isBare, pipelined: depth, seconds: seconds), isBare, depth)
                    }
                }
            }
            figures.print()
            try write(figures, to: options.json)
        }
        backend.close()
    }

    private static let warmingSeconds = 0.3
}

/// A backend's connections to one hub, and the devices that receive its events.
private final class Backend {
    private let loop: EventLoop
    private let swarm: Swarm
    private let script: ListenerScript
    private let publishers: [Publisher]
    private let requests: PublishRequests
    private let meter: ProcessMeter?

    init(_ command: PublishCommand) throws {
        let options = command.options
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let channel = "measured-\(seed)"
        let address = try options.address()
        guard address.security == nil else { throw LoadFailure("publishes are measured in the clear") }
        let loop = try EventLoop()
        self.loop = loop
        meter = try options.process()
        script = ListenerScript(channel)
        swarm = try Swarm(
            address, target: "/app/\(options.appKey)?protocol=7&client=loadtest", loop: loop, script: script,
            seed: seed)
        try swarm.open(command.subscribers, perUser: 1, topics: 0, progress: ProgressLine())
        requests = PublishRequests(
            options.credentials, app: options.appID, channel: channel, dataBytes: command.dataBytes)
        publishers = try (0..<command.connections).map { _ in try Publisher(address, loop: loop) }
    }

    /// Sends `count` publishes, and waits until all are answered and received.
    func send(_ count: Int, pipelined: Int) throws {
        for index in publishers.indices {
            publishers[index].left = count / publishers.count + (index < count % publishers.count ? 1 : 0)
        }
        try run(requests.publish, pipelined, isBare: false)
    }

    func measure(isBare: Bool, pipelined: Int, seconds: Double) throws -> PublishFigures.Outcome {
        for publisher in publishers { publisher.left = .max }
        let cpuBefore = meter?.cpuSeconds() ?? 0
        let ownBefore = ProcessMeter.ownCPUSeconds()
        let before = answers
        let began = Instant.read()
        try run(
            isBare ? requests.bare : requests.publish, pipelined, isBare: isBare,
            until: began.advanced(byNanoseconds: UInt64(seconds * 1e9)))
        let elapsed = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        return PublishFigures.Outcome(
            requests: answers - before, seconds: elapsed, serverCPUSeconds: (meter?.cpuSeconds() ?? 0) - cpuBefore,
            ownCPUSeconds: ProcessMeter.ownCPUSeconds() - ownBefore)
    }

    func close() {
        for publisher in publishers { publisher.drop() }
        swarm.closeAll()
    }

    private var answers: Int { publishers.reduce(0) { $0 + $1.answers } }

    private func run(_ request: SharedBytes, _ depth: Int, isBare: Bool, until end: Instant? = nil) throws {
        let before = answers
        let heardBefore = script.heard
        for publisher in publishers { publisher.start(request, depth: depth) }
        var watch = StallWatch()
        while true {
            loop.tick(waitingAtMost: .milliseconds(20))
            if let end, Instant.read() >= end { for publisher in publishers { publisher.left = 0 } }
            if let failure = swarm.firstFailure ?? publishers.lazy.compactMap(\.failure).first {
                throw LoadFailure(failure)
            }
            let wanted = isBare ? 0 : (answers - before) * swarm.devices.count
            let isDone = publishers.allSatisfy { $0.left == 0 && $0.isIdle }
            if isDone, script.heard - heardBefore == wanted { return }
            guard watch.isMoving(answers + script.heard) else {
                throw LoadFailure("\(script.heard - heardBefore) of \(wanted) events were heard, and no more come")
            }
        }
    }
}

/// A device on one public channel that counts events.
private final class ListenerScript: DeviceScript {
    private(set) var heard = 0
    private let channel: String

    init(_ channel: String) {
        self.channel = channel
    }

    func opened(_ device: LoadDevice) {}

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        if text.hasPrefix(#"{"event":"measured""#) {
            heard += 1
        } else if text.hasPrefix(#"{"event":"pusher:connection_established""#) {
            var subscribe = ByteWriter()
            subscribe.append(utf8: #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)"}}"#)
            device.send(subscribe)
        } else if text.hasPrefix(#"{"event":"pusher_internal:subscription_succeeded""#) {
            device.becomeLive()
        }
    }
}
