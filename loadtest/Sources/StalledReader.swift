import Reactor

/// A device that subscribes and then stops reading, beside others that read.
final class StalledReader {
    private let swarm: Swarm
    private let script: HubScript
    /// Whether every event that it read was the next one.
    private(set) var isInOrder = true

    /// Subscribes to the topics of `drive`'s first user, on the others' loop.
    init(beside drive: Drive, _ options: HubOptions, seed: UInt64) throws {
        script = HubScript(options.credentials, drive.population.names)
        swarm = try Swarm(
            drive.swarm.address, target: drive.swarm.target, loop: drive.swarm.loop, script: script, seed: seed)
        script.arrived = { [unowned self] arrival, device in
            isInOrder = isInOrder && arrival.offset == device.recipient.offsets[arrival.topic] + 1
            device.recipient.offsets[arrival.topic] = arrival.offset
        }
        try swarm.open(1, perUser: 1, topics: drive.plan.topics.count, progress: ProgressLine())
    }

    func stall() {
        for device in swarm.devices { device.setReading(false) }
    }

    /// Reads everything up to these positions.
    ///
    /// - Throws: `LoadFailure` if it was closed or an event is missing.
    func catchUp(with positions: [(user: Int, topic: Int, top: Int64)]) throws(LoadFailure) {
        for device in swarm.devices { device.setReading(true) }
        let wanted = positions.filter { $0.user == 0 }
        var watch = StallWatch()
        while let device = swarm.devices.first, wanted.contains(where: { device.recipient.offsets[$0.topic] < $0.top })
        {
            if let failure = swarm.firstFailure { throw LoadFailure("the stalled reader was closed: \(failure)") }
            guard watch.isMoving(swarm.receivedBytes) else {
                throw LoadFailure("the stalled reader never got all events")
            }
            swarm.loop.tick(waitingAtMost: .milliseconds(20))
        }
        guard isInOrder else { throw LoadFailure("the stalled reader missed events, or got some twice") }
        swarm.closeAll()
    }
}
