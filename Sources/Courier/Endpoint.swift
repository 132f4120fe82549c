import Pusher
import Reactor

/// An endpoint with what waits for it. Of the courier's thread.
final class Endpoint {
    /// Kept for as long as a request is under way, even when the app has left the configuration.
    let app: CourierApp
    /// As the configuration has it now; the URL stays.
    var configuration: WebhookEndpoint
    var credentials: AppCredentials
    /// Whether no event is to wait for it any more: it has left the configuration.
    var isRemoved = false
    /// Whether the log has told that it fails, and not yet that it works again.
    var isFailing = false
    /// Whether it takes batches now and did not, or the reverse. Nothing more is sent until what is under way has ended;
    /// then the events that wait get their new lines, and no channel's events overtake each other.
    var awaitsLines = false
    /// Events and their bytes in all lines, those of requests under way included.
    var events = 0
    var bytes = 0
    private(set) var lines: [DeliveryLine] = []

    init(_ app: CourierApp, _ credentials: AppCredentials, _ configuration: WebhookEndpoint, _ limits: CourierLimits) {
        self.app = app
        self.credentials = credentials
        self.configuration = configuration
        makeLines(limits)
    }

    /// Whether events wait that an endpoint has refused.
    var isTroubled: Bool { lines.contains { $0.failures > 0 && !$0.queue.isEmpty } }

    /// The line that can best do without its last event; nil where none has one to spare.
    var longestLine: DeliveryLine? {
        lines.max { $0.spare < $1.spare }.flatMap { $0.spare > 0 ? $0 : nil }
    }

    func line(of event: QueuedEvent) -> DeliveryLine {
        lines[Int(event.channelCode % UInt64(lines.count))]
    }

    /// Makes the lines that the configuration asks for, and moves the events to them, the oldest first. No line is ready,
    /// paused or under way.
    func makeLines(_ limits: CourierLimits) {
        let old = lines
        let count = configuration.isBatched ? 1 : max(1, limits.linesPerEndpoint)
        lines = (0..<count).map { _ in DeliveryLine(self) }
        let failures = old.map { $0.queue.isEmpty ? 0 : $0.failures }.max() ?? 0
        for line in lines { line.failures = failures }
        let events = old.flatMap { $0.queue.prefix($0.queue.count) }.enumerated().sorted {
            ($0.element.postedAt, $0.offset) < ($1.element.postedAt, $1.offset)
        }
        for event in events { line(of: event.element).queue.append(event.element) }
        awaitsLines = false
    }
}
