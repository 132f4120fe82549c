/// Messages on their way: when each was asked for, and how many of its channel's devices have not got it.
///
/// A device gets the messages of its channel in order, so that the number of those it has got says which one comes next.
struct MessageBook {
    /// What an arrival was.
    struct Receipt: Equatable {
        /// When the message was asked for, in nanoseconds.
        let sentAt: UInt64
        /// Whether it was the last device to get it.
        let isLast: Bool
    }

    /// Messages of all channels that some device has not got.
    private(set) var outstanding = 0

    private let perChannel: Int
    /// The most messages of one channel that may be on their way.
    private let depth: Int
    private var sentAt: [UInt64]
    private var missing: [Int]
    /// By channel.
    private var sent: [Int]
    private var completed: [Int]
    /// By device.
    private var received: [Int]

    /// `channels` channels of `perChannel` devices each, device `n` being in channel `n / perChannel`.
    init(channels: Int, perChannel: Int, depth: Int) {
        self.perChannel = perChannel
        self.depth = depth
        sentAt = Array(repeating: 0, count: channels * depth)
        missing = Array(repeating: 0, count: channels * depth)
        sent = Array(repeating: 0, count: channels)
        completed = Array(repeating: 0, count: channels)
        received = Array(repeating: 0, count: channels * perChannel)
    }

    /// A message is asked for. False, and nothing happens, where as many as may be are on their way in that channel.
    mutating func send(on channel: Int, at now: UInt64) -> Bool {
        guard sent[channel] - completed[channel] < depth else { return false }
        let place = channel * depth + sent[channel] % depth
        sentAt[place] = now
        missing[place] = perChannel
        sent[channel] += 1
        outstanding += 1
        return true
    }

    /// A device has got a message. Nil where there is none that it could have got.
    mutating func received(by device: Int) -> Receipt? {
        let channel = device / perChannel
        guard received[device] < sent[channel] else { return nil }
        let place = channel * depth + received[device] % depth
        received[device] += 1
        missing[place] -= 1
        guard missing[place] == 0 else { return Receipt(sentAt: sentAt[place], isLast: false) }
        completed[channel] += 1
        outstanding -= 1
        return Receipt(sentAt: sentAt[place], isLast: true)
    }
}
