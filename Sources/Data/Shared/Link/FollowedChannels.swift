import HubEngine
import Pusher
import RESP

/// The channels that a loop's link hears of: those with clients of the hub, which the loop owns.
struct FollowedChannels {
    private let apps: KnownApps
    private let prefixes: [[UInt8]]
    /// Which of how many loops it is.
    private let (loop, loops): (Int, Int)
    private var channels: [ChannelKey: [UInt8]] = [:]

    /// None.
    ///
    /// - Parameter prefixes: of each bucket's keys.
    init(_ apps: KnownApps, _ prefixes: [[UInt8]], loop: Int, of loops: Int) {
        (self.apps, self.prefixes, self.loop, self.loops) = (apps, prefixes, loop, loops)
    }

    /// The shard channels by which Redis tells of them.
    var all: some Collection<[UInt8]> { channels.values }

    func has(_ key: ChannelKey) -> Bool { channels[key] != nil }

    /// Its shard channel; nil where its app is not served here.
    mutating func insert(_ key: ChannelKey) -> [UInt8]? {
        guard let app = apps[key.app] else { return nil }
        let bucket = ChannelBucket(key.name, ofApp: app.id, of: prefixes.count)
        let channel = prefixes[bucket.number] + Array("c:\(app.id):\(key.name.string)".utf8)
        channels[key] = channel
        return channel
    }

    mutating func remove(_ key: ChannelKey) -> [UInt8]? { channels.removeValue(forKey: key) }

    /// News that all of the bucket may have changed unseen.
    func latest(in bucket: Int) -> [[UInt8]] {
        channels.filter { $0.value.starts(with: prefixes[bucket]) }.keys.map {
            ChannelNews.latest($0, .max).encoded(apps)
        }
    }

    /// Whether it is news of a channel that this loop owns, and that nobody here is in.
    func isElsewhere(_ news: RESPValue) -> Bool {
        guard case .bytes(let bytes) = news, case .latest(let key, _)? = try? ChannelNews(bytes, apps) else {
            return false
        }
        return key.shard(of: loops) == loop && !has(key)
    }
}
