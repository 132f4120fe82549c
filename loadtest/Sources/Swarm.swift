import Bytes
import Clock
import Pusher
import Reactor
import WebSocket

/// All devices of a run: one loop, driven by the main thread.
final class Swarm {
    let address: LoadAddress
    /// Where each connection goes, in place of `address`.
    var addressOf: ((Recipient) -> LoadAddress)?
    /// Path and query of the upgrade.
    let target: String
    /// Whether the number of the device's user is appended to it.
    var isTargetNumbered = false
    let loop: EventLoop
    let script: any DeviceScript
    /// The read buffer, shared by all devices.
    let buffer: UnsafeMutableRawBufferPointer
    /// The frames that a device is about to send; empty between two writes.
    var frames = ByteWriter()
    let messageLimits: MessageLimits
    /// Nil without TLS.
    private let security: (client: TLSClient, wire: TLSWire)?
    var random: SeededGenerator
    /// When the bytes being handled were read; with `stamps`, when they came to the socket.
    private(set) var receivedAt = Instant(nanoseconds: 0)
    /// Whether the kernel says when bytes came. A thousand devices share this program's thread, and none of them should wait
    /// for the others in the figures. In the clear only. Set it before a device connects.
    var stamps = false
    private(set) var receivedBytes = 0
    private(set) var devices: ContiguousArray<LoadDevice> = []
    private(set) var liveCount = 0
    /// Connections that resumed a TLS session.
    private(set) var resumedCount = 0
    private(set) var failureCount = 0
    private(set) var firstFailure: String?
    /// Where connections may fail: takes those that did, and why. They do not fail the run then.
    var lost: ((LoadDevice, String) -> Void)?

    /// A swarm without devices.
    ///
    /// - Throws: if the TLS roots cannot be read.
    init(_ address: LoadAddress, target: String, loop: EventLoop, script: any DeviceScript, seed: UInt64) throws {
        self.address = address
        security = try address.security.map { (try TLSClient($0), try TLSWire()) }
        self.target = target
        self.loop = loop
        self.script = script
        random = SeededGenerator(seed: seed)
        var limits = MessageLimits()
        limits.messageBytes = Limits.messageBytes
        messageLimits = limits
        buffer = .allocate(byteCount: Limits.readBytes, alignment: 64)
    }

    deinit {
        for device in devices where device.phase != .gone { loop.remove(device) }
        buffer.deallocate()
    }

    /// TLS for a new connection; nil without TLS.
    func newTLSSession() throws -> TLSSession? {
        guard let security else { return nil }
        return try security.client.session(host: "localhost", on: security.wire)
    }

    /// Concurrent handshakes: one, until there is a session to resume.
    private var handshakesAtOnce: Int {
        guard let security, address.security?.resumes == true, !security.client.canResume else {
            return Limits.handshakesAtOnce
        }
        return 1
    }

    /// Connects `count` devices, `perUser` for each user, and waits until all are live.
    func open(_ count: Int, perUser: Int, topics: Int, progress: ProgressLine) throws {
        devices.reserveCapacity(count)
        var watch = StallWatch()
        while liveCount < count {
            if let firstFailure { throw LoadFailure("\(failureCount) connections failed; the first: \(firstFailure)") }
            while devices.count < count, devices.count - liveCount < handshakesAtOnce {
                devices.append(
                    try LoadDevice(
                        Recipient(devices.count, user: devices.count / perUser, topics: topics), in: self))
            }
            loop.tick(waitingAtMost: .milliseconds(100))
            guard watch.isMoving(liveCount) else {
                throw LoadFailure("\(liveCount) of \(count) devices are subscribed, and no more come")
            }
            progress.show("\(liveCount) of \(count) devices are subscribed")
        }
        progress.clear()
    }

    var recipients: [Recipient] { devices.map(\.recipient) }

    func closeAll() {
        for device in devices where device.phase != .gone { device.drop() }
        devices = []
        liveCount = 0
    }

    func target(of device: Recipient) -> String {
        isTargetNumbered ? "\(target)\(device.user)" : target
    }

    func received(_ count: Int, at time: Instant? = nil) {
        receivedAt = time ?? Instant.read()
        receivedBytes += count
    }

    func isSecured(resumed: Bool) {
        if resumed { resumedCount += 1 }
    }

    /// A device has completed its subscriptions.
    func isLive(_ device: LoadDevice) {
        liveCount += 1
    }

    func failed(_ device: LoadDevice, _ reason: String) {
        if let lost { return lost(device, reason) }
        failureCount += 1
        if firstFailure == nil { firstFailure = "device \(device.recipient.number): \(reason)" }
    }
}

/// Detects a run that makes no progress.
struct StallWatch {
    private var last = -1
    private var since = Instant.read()

    /// Whether `count` has changed within `Limits.stall`.
    mutating func isMoving(_ count: Int) -> Bool {
        let now = Instant.read()
        if count != last {
            last = count
            since = now
        }
        return now.duration(since: since) < Limits.stall
    }
}

/// SplitMix64: keys and masks of a run, from its seed.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
