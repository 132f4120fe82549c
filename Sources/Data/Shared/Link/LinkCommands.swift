import Bytes
import Clock
import HubEngine
import Metrics
import RESP
import Redis

/// The commands that a link tells all other hubs. The first loop's link hears for the whole hub what others tell.
///
/// Worst interleavings, each with its test in `LinkCommandTests`:
/// - The way to Redis is broken. A command waits, and is told with its age: who has signed in since stays.
/// - A hub could not hear for a while, and was perhaps taken for dead. It reads what was told meanwhile, by pages, until it
///   has read all, however often the way breaks. What it hears live before that does not count as read.
/// - What was heard live is read again. Each command has a serial, and is followed once.
/// - Redis is full, or is without its replicas. It passes a command on and does not keep it: it is told again until it does.
final class LinkCommands {
    weak var link: RedisLink?
    private var untold: [Told] = []
    /// Up to when all that others told was heard, in milliseconds by Redis's clock; and the last that was heard live.
    private var heardAt: UInt64 = 0
    private var liveAt: UInt64 = 0
    /// Something is still to be read.
    private var isBehind = false
    /// The reading that counts, and whether it has broken off.
    private var reading: UInt64 = 0
    private var hasBrokenOff = false
    private var followed: Set<UInt64> = []
    private var order = Fifo<UInt64>()

    private struct Told {
        let command: HubCommand
        let serial = UInt64.random(in: 1..<1 << 53)
        let at: Instant
    }

    /// Commands that wait at most: of more, other hubs are not told, and it is counted.
    static let untoldMax = 1_000
    private static let followedMax = 10_000
    /// How long other hubs can still be told.
    private static let kept = Duration.seconds(600)
    /// So far may the clocks of a master and of its replica be apart, in milliseconds.
    private static let clockDifference: UInt64 = 10_000

    // MARK: To other hubs

    /// Once there is a connection: a user must not stay at other hubs.
    func tell(_ command: HubCommand) { tell(Told(command: command, at: .read()), age: 0) }

    /// - Parameter age: in milliseconds.
    private func tell(_ told: Told, age: UInt64) {
        guard let link, link.isUp else { return keep(told) }
        let sender = link.hub
        let command = SharedCommand(told.command, serial: told.serial, age: age, from: sender, link.apps)
        link.evaluate(command, 0) { [weak self] reply in
            if case .value(.integer(1)) = reply { return }
            self?.keep(told)
            if case .refused(let error) = reply { self?.link?.failed(error, as: sender) }
        }
    }

    private func keep(_ told: Told) {
        if untold.count < Self.untoldMax { untold.append(told) } else { link?.shared.metrics.unavailable.add() }
    }

    /// Commands that could not be told, or are not kept.
    func tellUntold() {
        let now = Instant.read()
        for told in exchange(&untold, with: []) {
            let age = now.duration(since: told.at)
            if age < Self.kept { tell(told, age: max(1, Self.milliseconds(age))) }
        }
    }

    // MARK: From other hubs

    /// What has come on the channel of commands.
    func hear(_ message: [UInt8]) {
        var reader = SharedReader(part: message)
        guard let time = try? reader.number() else { return }
        if isBehind { liveAt = max(liveAt, time) } else { heardAt = max(heardAt, time) }
        follow(reader.rest, told: 0)
    }

    /// Reads what was told while the hub could not hear it.
    func catchUp() {
        reading += 1
        (isBehind, hasBrokenOff, liveAt) = (true, false, heardAt)
        read(after: nil, as: reading)
    }

    /// Goes on where that has broken off.
    func catchUpAgain() { if hasBrokenOff, link?.isUp == true { catchUp() } }

    private func read(after last: [UInt8]?, as number: UInt64) {
        guard let link else { return }
        let sender = link.hub
        let time = heardAt > Self.clockDifference ? heardAt - Self.clockDifference : 0
        let asked = Instant.read()
        link.evaluate(SharedCommand(missedBy: sender, after: last, since: time), 0) { [weak self] reply in
            guard let self, reading == number else { return }
            guard case .value(.array(let entries)) = reply else {
                hasBrokenOff = true
                if case .refused(let error) = reply { self.link?.failed(error, as: sender) }
                return
            }
            // Redis has counted the age somewhere between the question and now.
            let way = Self.milliseconds(Instant.read().duration(since: asked)) / 2
            var last: [UInt8]?
            for case .array(let parts) in entries {
                guard parts.count == 3, case .bytes(let id) = parts[0], case .integer(let age) = parts[1],
                    case .bytes(let message) = parts[2]
                else { continue }
                last = id
                let time = String(decoding: id.prefix { $0 != UInt8(ascii: "-") }, as: UTF8.self)
                heardAt = max(heardAt, UInt64(time) ?? 0)
                follow(message, told: UInt64(clamping: age) + way)
            }
            if let last { return read(after: last, as: number) }
            isBehind = false
            heardAt = max(heardAt, liveAt)
        }
    }

    /// - Parameter age: how long ago Redis was told, in milliseconds.
    private func follow(_ message: [UInt8], told age: UInt64) {
        var reader = SharedReader(part: message)
        guard let link, let sender = try? reader.data(), let serial = try? reader.number(),
            let before = try? reader.number(), !sender.elementsEqual("\(link.hub.number)".utf8),
            followed.insert(serial).inserted
        else { return }
        order.append(serial)
        if followed.count > Self.followedMax, let oldest = order.popFirst() { followed.remove(oldest) }
        guard let command = try? HubCommand(reader.rest, link.apps) else { return }
        link.tell([.bytes(command.aged(by: age + before).encoded(link.apps))])
    }

    private static func milliseconds(_ time: Duration) -> UInt64 { time.wholeNanoseconds / 1_000_000 }
}
