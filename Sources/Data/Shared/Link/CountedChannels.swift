import HubEngine
import RESP
import Redis

/// The channels that Redis counts the hub in, read by the loop that owns them.
///
/// Worst interleaving: a replica takes over without a hub's last exit from a channel. The hub has nothing of that channel
/// that it would assert, so the session would stay for as long as the hub lives (`aLostExitIsSaidAgain`).
final class CountedChannels {
    weak var link: RedisLink?
    /// The reading that counts.
    private var reading: UInt64 = 0

    /// Reads all of them. Those that nobody here is in, the loop is told of: it knows what is true, and says so.
    func read() {
        guard let link else { return }
        reading += 1
        for bucket in link.shared.keys.indices { read(bucket, from: [UInt8(ascii: "0")], as: reading) }
    }

    private func read(_ bucket: Int, from cursor: [UInt8], as number: UInt64) {
        guard let link else { return }
        let sender = link.hub
        link.evaluate(SharedCommand(countedOf: sender, from: cursor), bucket) { [weak self] reply in
            guard let self, reading == number, let link = self.link else { return }
            switch reply {
            case .value(.array(let parts)):
                guard parts.count == 2, case .bytes(let next) = parts[0], case .array(let news) = parts[1] else {
                    return
                }
                link.tell(news.filter { link.followed.isElsewhere($0) })
                if next != [UInt8(ascii: "0")] { read(bucket, from: next, as: number) }
            case .refused(let error):
                link.failed(error, as: sender)
                readAgain(bucket, as: number)
            case .lost: readAgain(bucket, as: number)
            case .value: break
            }
        }
    }

    /// In a while. The next gap reads all of them.
    private func readAgain(_ bucket: Int, as number: UInt64) {
        link?.heart?.later { [weak self] in
            guard let self, reading == number, link?.isUp == true else { return }
            read(bucket, from: [UInt8(ascii: "0")], as: number)
        }
    }
}
