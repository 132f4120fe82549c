import HubEngine
import RESP
import Redis

/// What a link tells of the loop's users. The first loop's link hears for the whole hub.
final class LinkUsers {
    weak var link: RedisLink?
    private var missed = 0

    /// What is lost is said again by the loop.
    func tell(_ sent: SentUserCall) {
        guard let link else { return }
        let known = SentUserCall(sent.call, from: link.hub)
        guard
            let commands = try? SharedCommand.commands(
                known, caller: link.number, link.apps, buckets: link.shared.keys.count)
        else { return }
        guard link.isUp else { return link.owes() }
        for command in commands {
            guard let bucket = command.bucket?.number else { continue }
            link.evaluate(command, bucket) { [weak link] reply in
                switch reply {
                case .value(.integer(let delay)) where delay >= 0: link?.heart?.usersMayBeDue(bucket)
                case .refused(let error): if link?.failed(error, as: known.hub) == true { link?.owe() }
                case .lost: link?.owe()
                case .value: break
                }
            }
        }
    }

    /// By which the hub hears of users, and of commands.
    func channels(of hub: HubID, _ keys: [[UInt8]]) -> [[UInt8]] {
        keys.map { SharedCommand.channel(to: hub, $0) } + [keys[0] + Array("commands".utf8)]
    }

    /// Whether the first loop may have missed what was told of this one's users.
    func haveBeenMissed(_ count: Int) -> Bool {
        defer { missed = count }
        return missed != count
    }
}
