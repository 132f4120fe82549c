/// Messages in flight: when each was requested, and how many of its channel's devices still lack it.
///
/// A device gets its channel's messages in order, so the number received tells which comes next.
struct MessageBook {
    struct Receipt: Equatable {
        /// When the message was asked for, in nanoseconds.
        let sentAt: UInt64
        /// Whether it was the last device to get it.
        let isLast: Bool
    }

    /// Messages that some device still lacks, of all channels.
    private(set) var outstanding = 0

    private let perChannel: Int
    /// The bound of one channel's messages in flight.
    private let depth: Int
    private var sentAt: [UInt64]
    private var missing: [Int]
    /// By channel.
    private var sent: [Int]
    private var completed: [Int]
    /// By device.
    private var received: [Int]

    /// `channels` channels with `perChannel` devices each; device `n` is in channel `n / perChannel`.
    init(channels: Int, perChannel: Int, depth: Int) {
        self.perChannel = perChannel
        self.depth = depth
        sentAt = Array(repeating: 0, count: channels * depth)
        missing = Array(repeating: 0, count: channels * depth)
        sent = Array(repeating: 0, count: channels)
        completed = Array(repeating: 0, count: channels)
        received = Array(repeating: 0, count: channels * perChannel)
    }

    /// Records a requested message. Returns false, without effect, if the channel has too many in flight.
    mutating func send(on channel: Int, at now: UInt64) -> Bool {
        guard sent[channel] - completed[channel] < depth else { return false }
        let index = channel * depth + sent[channel] % depth
        sentAt[index] = now
        missing[index] = perChannel
        sent[channel] += 1
        outstanding += 1
        return true
    }

    /// Records a received message. Nil if none was in flight for the device.
    mutating func received(by device: Int) -> Receipt? {
        let channel = device / perChannel
        guard received[device] < sent[channel] else { return nil }
        let index = channel * depth + received[device] % depth
        received[device] += 1
        missing[index] -= 1
        guard missing[index] == 0 else { return Receipt(sentAt: sentAt[index], isLast: false) }
        completed[channel] += 1
        outstanding -= 1
        return Receipt(sentAt: sentAt[index], isLast: true)
    }
}
