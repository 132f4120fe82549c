import Bytes
import Channels
import Pusher
import Reactor

/// An endpoint with what waits for it. Of the courier's thread.
final class Endpoint {
    let appID: String
    /// As the configuration has it now; the URL stays.
    var configuration: WebhookEndpoint
    var credentials: AppCredentials
    /// Whether no event is to wait for it any more: it has left the configuration.
    var isRemoved = false
    /// Events and their bytes in all lines, those of requests under way included.
    var events = 0
    var bytes = 0
    /// Lines whose last request failed.
    var troubledLines = 0
    private(set) var lines: [DeliveryLine] = []

    init(_ appID: String, _ credentials: AppCredentials, _ configuration: WebhookEndpoint, lines: Int) {
        self.appID = appID
        self.credentials = credentials
        self.configuration = configuration
        self.lines = (0..<max(1, lines)).map { _ in DeliveryLine(self) }
    }

    /// The line of a channel, always the same.
    func line(of channel: ChannelName) -> DeliveryLine {
        // FNV-1a: alike in every run, so that a test's seed makes the same history again.
        var code: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in channel.string.utf8 { code = (code ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return lines[Int(code % UInt64(lines.count))]
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

/// A request to be made.
struct Departure {
    let endpoint: Endpoint
    let line: DeliveryLine
    /// How many of the line's first events it tells.
    let events: Int
    /// Whether the line's last request failed.
    let isRetry: Bool
    let body: [UInt8]
    /// Of the body, by the app's present secret, in hexadecimal.
    let signature: String
}

/// What a request came to.
enum DeliveryResult: Equatable {
    case delivered
    /// The label of the reason.
    case failed(DeliveryFailure)
}

/// Why a request failed, as metrics and logs have it.
enum DeliveryFailure: String, CaseIterable, Sendable {
    /// The answer's status was of the class.
    case status3xx = "3xx"
    case status4xx = "4xx"
    case status5xx = "5xx"
    /// No answer in time.
    case timeout
    /// No such name.
    case name
    /// The address is not of the public internet.
    case address
    /// Nobody took the connection.
    case connect
    /// The certificate is not trusted, or the handshake failed.
    case tls
    /// The connection ended, or what came is not HTTP.
    case broken
}
