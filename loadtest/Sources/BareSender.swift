import Clock
import Reactor

/// The bare C sender of `loadtest/Limit`, with counting receivers: the practical limit for a hub.
final class BareSender {
    /// `plain` or `cork`, as it was started.
    let name: String
    private let meter: ProcessMeter
    private let counter = Counter()
    private let receivers: Swarm
    private let trigger: Trigger
    private let loop: EventLoop

    /// Connects to a sender given as `NAME=PORT:PID`.
    init(_ sender: String, loop: EventLoop, seed: UInt64) throws {
        let parts = sender.split(separator: "=").flatMap { $0.split(separator: ":") }
        guard parts.count == 3, let pid = Int32(parts[2]) else {
            throw LoadFailure("--sender \(sender): NAME=PORT:PID is needed")
        }
        name = String(parts[0])
        meter = try ProcessMeter(pid: pid)
        let address = try LoadAddress("127.0.0.1:\(parts[1])")
        self.loop = loop
        receivers = try Swarm(address, target: "/receive/0", loop: loop, script: counter, seed: seed)
        trigger = try Trigger(address, .records, loop: loop)
    }

    func open(_ count: Int, progress: ProgressLine) throws {
        try receivers.open(count, perUser: count, topics: 0, progress: progress)
    }

    /// Has `frames` frames sent to every receiver, `burst` at a time, in at least `seconds`.
    ///
    /// Uses the pace of the hub's round: a sender that never waits keeps its data in the processor's caches, which a server
    /// with a database beside it cannot.
    func measure(frames: Int, burst: Int, seconds: Double) throws -> Drive.Outcome {
        let receiverCount = receivers.liveCount
        counter.messages = 0
        let cpuBefore = meter.cpuSeconds()
        let ownBefore = ProcessMeter.ownCPUSeconds()
        let began = Instant.read()
        var sent = 0
        var watch = StallWatch()
        while counter.messages < frames * receiverCount {
            let due = began.nanoseconds + UInt64(seconds * 1e9 * Double(sent) / Double(frames))
            let now = Instant.read().nanoseconds
            if sent < frames, counter.messages == sent * receiverCount, now >= due {
                for _ in 0..<min(burst, frames - sent) {
                    trigger.send(on: 0)
                    sent += 1
                }
            }
            trigger.flush()
            loop.tick(waitingAtMost: .nanoseconds(Int64(now < due ? due - now : 20_000_000)))
            guard watch.isMoving(counter.messages), receivers.failureCount == 0, !trigger.isBroken else {
                throw LoadFailure("the sender \(name) gave up after \(counter.messages) deliveries")
            }
        }
        var outcome = Drive.Outcome()
        outcome.seconds = Double(Instant.read().nanoseconds - began.nanoseconds) / 1e9
        outcome.changes = frames
        outcome.deliveries = counter.messages
        if let cpuBefore, let after = meter.cpuSeconds() { outcome.serverCPUSeconds = after - cpuBefore }
        outcome.ownCPUSeconds = ProcessMeter.ownCPUSeconds() - ownBefore
        return outcome
    }
}

private final class Counter: DeviceScript {
    var messages = 0

    func opened(_ device: LoadDevice) {
        device.speakOnce()
        device.becomeLive()
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        messages += 1
    }
}
