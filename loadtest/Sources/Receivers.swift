import Bytes
import Clock
import Histogram
import Pusher
import Reactor

/// The receivers of one server, grouped in channels, and the triggers that make the server send, in turn.
final class Receivers {
    struct Shape {
        var channels: Int
        var perChannel: Int

        var devices: Int { channels * perChannel }
    }

    enum Load: Equatable {
        case inFlight(Int)
        /// This many messages per second, evenly spaced, regardless of earlier ones.
        case rate(Double)

        var name: String {
            switch self {
            case .inFlight(let count): "\(count) in flight"
            case .rate(let rate): "\(decimal(rate)) messages/s"
            }
        }
    }

    struct Outcome {
        var deliveries = 0
        var seconds = 0.0
        var serverCPUSeconds = 0.0
        var ownCPUSeconds = 0.0
        /// From the request for a message to a device's read.
        var p50Microseconds = 0.0
        var p99Microseconds = 0.0
        /// At each of `Receivers.percentiles`.
        var curveMicroseconds: [Double] = []
        /// Messages not requested when due, since earlier ones had not arrived: the rate is too high.
        var late = 0
    }

    private let server: MeasuredServer
    private let shape: Shape
    private let loop: EventLoop
    private let swarm: Swarm
    private let script: TallyScript
    private let triggers: [Trigger]
    private var nextTrigger = 0
    private var book: MessageBook
    private var nextChannel = 0
    private var deliveries = 0
    private var latencies = Histogram<UInt64>(numberOfSignificantValueDigits: .three)

    /// Those of a curve: each stands for ten times rarer messages than the one two before it, or nearly.
    static let percentiles = [50, 75, 90, 97, 99, 99.7, 99.9, 99.97, 99.99]
    /// Messages in flight per channel, if there are many channels.
    private static let depth = 4

    /// Connects the devices, and waits until all are live.
    ///
    /// - Parameters:
    ///   - bodyBytes: of a message that the server does not create itself.
    ///   - inFlight: the most that any load will request.
    ///   - triggerCount: connections that make the server send.
    init(
        _ server: MeasuredServer, _ shape: Shape, _ options: HubOptions, bodyBytes: Int, inFlight: Int,
        triggerCount: Int,
        loop: EventLoop, seed: UInt64, progress: ProgressLine
    ) throws {
        guard let control = server.control else {
            throw LoadFailure("\(server.name): without a control port it cannot be made to send")
        }
        self.server = server
        self.shape = shape
        self.loop = loop
        let names = Names(run: String(seed, radix: 36), topics: [RowKind.reminders.topic])
        let joining = server.script(options.credentials, names)
        script = TallyScript(joining)
        let target = server.target(appKey: options.appKey)
        swarm = try Swarm(server.address, target: target.path, loop: loop, script: script, seed: seed)
        swarm.isTargetNumbered = target.isNumbered
        swarm.addressOf = { server.addresses[$0.number % server.addresses.count] }
        book = MessageBook(
            channels: shape.channels, perChannel: shape.perChannel, depth: shape.channels == 1 ? inFlight : Self.depth)
        let form: Trigger.Form
        if let pusher = joining as? PusherScript {
            form = .publishes(
                SignedPublish(
                    app: options.appID, options.credentials, frameBytes: bodyBytes, channel: pusher.channel))
        } else {
            form = server.kind == .nchan ? .posts(body: String(repeating: "x", count: bodyBytes)) : .records
        }
        triggers = try (0..<triggerCount).map { _ in try Trigger(control, form, loop: loop) }
        script.received = { [unowned self] in received($0) }
        try swarm.open(shape.devices, perUser: shape.perChannel, topics: 1, progress: progress)
    }

    /// Size of the last message in bytes, without the frame header.
    var lastMessageBytes: Int { script.lastBytes }

    /// Has the server send for `seconds`, then waits for all deliveries.
    func measure(_ load: Load, seconds: Double) throws -> Outcome {
        deliveries = 0
        latencies.reset()
        let cpuBefore = server.meter?.cpuSeconds() ?? 0
        let ownBefore = ProcessMeter.ownCPUSeconds()
        let began = Instant.read().nanoseconds
        let end = began + UInt64(seconds * 1e9)
        var outcome = Outcome()
        var due = 0
        var watch = StallWatch()
        while true {
            let now = Instant.read().nanoseconds
            var wait = Duration.milliseconds(20)
            if now < end {
                switch load {
                case .inFlight(let count):
                    while book.outstanding < count, sendNext(at: now) {}
                case .rate(let rate):
                    while Double(due) < Double(now - began) / 1e9 * rate {
                        due += 1
                        if !sendNext(at: now) { outcome.late += 1 }
                    }
                    // The kernel's timers are too coarse for this rate: poll at once.
                    wait = rate < 500 ? .milliseconds(1) : .zero
                }
            } else if book.outstanding == 0 {
                break
            }
            for trigger in triggers { trigger.flush() }
            loop.tick(waitingAtMost: wait)
            if let failure = swarm.firstFailure { throw LoadFailure("\(server.name): \(failure)") }
            guard !triggers.contains(where: \.isBroken), watch.isMoving(deliveries) else {
                throw LoadFailure("\(server.name) gave up with \(book.outstanding) messages on their way")
            }
        }
        outcome.seconds = Double(Instant.read().nanoseconds - began) / 1e9
        outcome.deliveries = deliveries
        outcome.serverCPUSeconds = (server.meter?.cpuSeconds() ?? 0) - cpuBefore
        outcome.ownCPUSeconds = ProcessMeter.ownCPUSeconds() - ownBefore
        outcome.p50Microseconds = Double(latencies.valueAtPercentile(50)) / 1000
        outcome.p99Microseconds = Double(latencies.valueAtPercentile(99)) / 1000
        outcome.curveMicroseconds = Self.percentiles.map { Double(latencies.valueAtPercentile($0)) / 1000 }
        return outcome
    }

    /// Closes all connections, and waits until the server has cleaned up.
    func close() {
        for trigger in triggers { trigger.drop() }
        swarm.closeAll()
        server.meter?.waitUntilIdle()
    }

    private func sendNext(at now: UInt64) -> Bool {
        let channel = nextChannel
        nextChannel = (nextChannel + 1) % shape.channels
        guard book.send(on: channel, at: now) else { return false }
        triggers[nextTrigger].send(on: channel)
        nextTrigger = (nextTrigger + 1) % triggers.count
        return true
    }

    private func received(_ device: LoadDevice) {
        guard let receipt = book.received(by: device.recipient.number) else {
            return device.fail("a message that nobody asked for")
        }
        deliveries += 1
        _ = latencies.record(max(1, swarm.receivedAt.nanoseconds &- receipt.sentAt))
    }
}

/// A device that counts messages once it is live, without parsing them.
private final class TallyScript: DeviceScript {
    /// Called with each message of a live device, except the protocol's own.
    var received: (LoadDevice) -> Void = { _ in }
    private(set) var lastBytes = 0
    private let joining: any DeviceScript

    init(_ joining: any DeviceScript) {
        self.joining = joining
    }

    func opened(_ device: LoadDevice) {
        joining.opened(device)
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        guard device.phase == .live, !text.hasPrefix(#"{"event":"pusher"#) else {
            return joining.received(text, by: device)
        }
        lastBytes = text.count
        received(device)
    }
}
