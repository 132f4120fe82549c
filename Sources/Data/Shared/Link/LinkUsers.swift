import HubEngine
import RESP
import Redis

/// What a link tells of the loop's users, and the commands to all other hubs. The first loop's link hears for the whole hub.
final class LinkUsers {
    weak var link: RedisLink?
    /// Commands that no other hub has been told.
    private var untold: [HubCommand] = []
    private var missed = 0

    /// Commands that wait; of more, the other hubs are not told.
    private static let untoldMax = 1_000

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
        guard let sender = try? reader.data(), !sender.elementsEqual("\(hub.number)".utf8) else { return nil }
        return reader.rest
    }

    /// Whether the first loop may have missed what was told of this one's users.
    func haveBeenMissed(_ count: Int) -> Bool {
        defer { missed = count }
        return missed != count
    }
}
