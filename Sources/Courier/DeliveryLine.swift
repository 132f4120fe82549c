import Channels
import Pusher
import Reactor

/// Events of one endpoint that go out one request after the other.
///
/// Valid transitions: idle → ready, paused; ready → underWay, idle; paused → ready, idle; underWay → idle, ready, paused.
/// Events wait in an idle one only where its endpoint awaits other lines, and where a request has failed as the hub ends.
final class DeliveryLine {
    enum State {
        case idle, ready, underWay
        /// For more events of a batch, or after a request that failed.
        case paused(until: Instant)
    }

    /// The endpoint has its lines, and what is done to a line holds the endpoint.
    unowned let endpoint: Endpoint
    var state = State.idle
    var queue = Row<QueuedEvent>()
    /// Requests that failed one after the other.
    var failures = 0
    /// The first events, which the request under way tells.
    var departed = 0

    init(_ endpoint: Endpoint) {
        self.endpoint = endpoint
    }

    var isUnderWay: Bool {
        if case .underWay = state { true } else { false }
    }

    /// How many events may be dropped to make room: none that is under way, and never the last one.
    var spare: Int { queue.count - max(1, departed) }

    /// How many of the first events go into the next request.
    func share(_ limits: CourierLimits) -> Int {
        guard endpoint.configuration.isBatched else { return min(1, queue.count) }
        var (count, bytes) = (0, 0)
        for event in queue.prefix(limits.batchEventsMax) {
            bytes += event.text.count + 1
            if count > 0, bytes > limits.batchBytesMax { break }
            count += 1
        }
        return count
    }
}

/// An event that waits for one endpoint.
struct QueuedEvent {
    /// As it stands in a body; shared by all endpoints that want it.
    let text: [UInt8]
    /// One kind.
    let kind: WebhookKinds
    let postedAt: Instant
    /// Of the channel's name; what chooses the line, always the same.
    let channelCode: UInt64

    init(_ text: [UInt8], _ kind: WebhookKinds, of channel: ChannelName, postedAt: Instant) {
        self.text = text
        self.kind = kind
        self.postedAt = postedAt
        // FNV-1a: alike in every run, so that a test's seed makes the same history again.
        var code: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in channel.string.utf8 { code = (code ^ UInt64(byte)) &* 0x100_0000_01B3 }
        channelCode = code
    }

    /// What it counts against the bounds.
    var bytes: Int { text.count + CourierLimits.bytesPerEvent }
}
