import HubEngine
import RESP
import Redis

/// What a link tells of the loop's users, and the commands to all other hubs. The first loop's link hears for the whole hub.
final class LinkUsers {
    weak var link: RedisLink?
    /// Commands that no other hub has been told.
    private var untold: [HubCommand] = []
    private var missed = 0
    /// When another hub was last heard to command something, in milliseconds by Redis's clock.
    private var heardAt: UInt64 = 0

    /// Commands that wait; of more, the other hubs are not told.
    private static let untoldMax = 1_000
    /// So far may the clocks of a master and of its replica be apart, in milliseconds.
    private static let clockDifference: UInt64 = 10_000

    /// What is lost is said again by the loop.
    func tell(_ sent: SentUserCall) {
        guard let link else { return }
        let known = SentUserCall(sent.call, from: link.hub)
        guard let commands = try? link.commands(known) else { return }
        guard link.isUp else { return link.owes() }
        for command in commands {
            guard let bucket = command.bucket?.number else { continue }
            link.evaluate(command, bucket) { [weak link] reply in
                switch reply {
                case .value(.integer(let delay)) where delay >= 0: link?.usersMayBeDue(bucket)
                case .refused(let error): if link?.failed(error, as: known.hub) == true { link?.owe() }
                case .lost: link?.owe()
                case .value: break
                }
            }
        }
    }

    /// Once there is a connection: its user must not stay at other hubs.
    func tell(_ command: HubCommand) {
        guard let link, link.isUp else {
            if untold.count < Self.untoldMax { untold.append(command) }
            return
        }
        let sender = link.hub
        link.evaluate(link.command(command), 0) { [weak self] reply in
            if case .value = reply { return }
            self?.untold.append(command)
            if case .refused(let error) = reply { self?.link?.failed(error, as: sender) }
        }
    }

    /// Commands that could not be told.
    func tellUntold() {
        for command in exchange(&untold, with: []) { tell(command) }
    }

    /// By which the hub hears of users, and of commands.
    func channels(of hub: HubID, _ keys: [[UInt8]]) -> [[UInt8]] {
        keys.map { SharedCommand.channel(to: hub, $0) } + [keys[0] + Array("commands".utf8)]
    }

    /// What another hub commands; nil for what this one has, and has followed already.
    func command(in message: [UInt8], of hub: HubID) -> [UInt8]? {
        var reader = SharedReader(part: message)
        guard let sender = try? reader.data(), let time = try? reader.number() else { return nil }
        heardAt = max(heardAt, time)
        return sender.elementsEqual("\(hub.number)".utf8) ? nil : reader.rest
    }

    /// What was commanded while the hub could not hear it. What it has heard may come again: that changes nothing.
    func catchUp(after last: [UInt8]? = nil) {
        guard let link else { return }
        let time = heardAt > Self.clockDifference ? heardAt - Self.clockDifference : 0
        let sender = link.hub
        link.evaluate(SharedCommand(missedBy: sender, after: last, since: time), 0) { [weak self] reply in
            guard let self, let link = self.link else { return }
            if case .refused(let error) = reply { link.failed(error, as: sender) }
            guard case .value(.array(let entries)) = reply else { return }
            var last: [UInt8]?
            for entry in entries {
                guard case .array(let parts) = entry, parts.count == 3, case .bytes(let id) = parts[0],
                    case .integer(let age) = parts[1], case .bytes(let message) = parts[2]
                else { continue }
                last = id
                guard let bytes = command(in: message, of: sender), let told = try? HubCommand(bytes, link.apps) else {
                    continue
                }
                link.tell([.bytes(told.aged(by: UInt64(clamping: age)).encoded(link.apps))])
            }
            if let last { catchUp(after: last) }
        }
    }

    /// Whether the first loop may have missed what was told of this one's users.
    func haveBeenMissed(_ count: Int) -> Bool {
        defer { missed = count }
        return missed != count
    }
}
