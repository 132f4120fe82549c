import Reactor

/// Events of one endpoint that go out one request after the other.
///
/// Valid transitions: idle → ready, paused; ready → underWay; paused → ready; underWay → idle, ready, paused. Nothing waits
/// in an idle one.
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

    init(_ endpoint: Endpoint) {
        self.endpoint = endpoint
    }

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
    let postedAt: Instant

    /// What it counts against the bounds.
    var bytes: Int { text.count + CourierLimits.bytesPerEvent }
}
