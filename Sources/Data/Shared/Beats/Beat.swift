import Clock
import HubEngine

/// What all hubs are told of a bucket every second.
struct Beat {
    /// Of the bucket: another one has begun anew.
    let epoch: [UInt8]
    /// One above that of the beat before.
    let number: UInt64
    /// The channels that have changed, each with the news of that.
    let changed: [(key: ChannelKey, bytes: [UInt8])]

    /// Reads the bytes. Any may come. What is about apps that are not served here is left out.
    init(_ bytes: [UInt8], _ apps: KnownApps) throws(SharedProblem) {
        var reader = SharedReader(part: bytes)
        epoch = try reader.data()
        number = try reader.number()
        var changed: [(key: ChannelKey, bytes: [UInt8])] = []
        while !reader.isAtEnd {
            let news = try reader.data()
            if case .latest(let key, _)? = try? ChannelNews(news, apps) { changed.append((key, news)) }
        }
        self.changed = changed
    }
}

/// The beats of all buckets, as one connection has got them.
///
/// Pub/sub may lose its last message, and nothing else would tell: beats do, by what they say and by their numbers.
struct BeatWatch {
    private struct Last {
        var epoch: [UInt8]?
        var number: UInt64 = 0
        var at: Instant?
    }

    /// Three beats, and half of one.
    private static let patience = Duration.milliseconds(3_500)

    private var last: [Last]

    init(buckets: Int) { last = Array(repeating: Last(), count: buckets) }

    /// Whether the bucket has begun anew.
    func isAnew(_ beat: Beat, _ bucket: Int) -> Bool { last[bucket].epoch.map { $0 != beat.epoch } ?? false }

    /// Whether others were missed before this one.
    mutating func hasMissed(_ beat: Beat, _ bucket: Int, now: Instant) -> Bool {
        defer { last[bucket] = Last(epoch: beat.epoch, number: beat.number, at: now) }
        guard let epoch = last[bucket].epoch else { return false }
        return epoch != beat.epoch || beat.number != last[bucket].number + 1
    }

    /// The buckets that have been silent for too long; each is named once in that time.
    mutating func takeSilent(now: Instant) -> [Int] {
        var silent: [Int] = []
        for bucket in last.indices {
            guard let at = last[bucket].at else {
                last[bucket].at = now
                continue
            }
            guard now.duration(since: at) > Self.patience else { continue }
            last[bucket].at = now
            silent.append(bucket)
        }
        return silent
    }
}
