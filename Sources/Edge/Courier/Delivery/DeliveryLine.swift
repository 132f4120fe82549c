import Bytes
import Channels
import Clock
import Pusher
import Reactor

/// The events of one channel that wait for one endpoint, and go out one request after the other, in their order.
///
/// Valid transitions: idle → ready; ready → underWay, idle; underWay → ready, paused, spent, idle; paused → ready, idle.
/// Invariant: it is in its endpoint's table exactly while it holds events; it is in its lane's rows exactly while it is ready.
final class DeliveryLine {
    enum State {
        case idle, ready, underWay
        /// After a request that failed.
        case paused(until: Instant)
        /// After the last request that may fail: the hub ends.
        case spent
    }

    /// The endpoint has its lines, and what is done to a line holds the endpoint.
    unowned let endpoint: Endpoint
    let channel: ChannelName
    var state = State.idle
    private(set) var queue = SortedRow<QueuedEvent>()
    /// Of its events, how many there are of each kind.
    private(set) var counts = SIMD8<Int32>.zero
    /// By which it is in the rows of its lane: its first event's.
    var rowNumber: UInt64 = 0
    /// Requests that failed one after the other.
    var failures = 0
    /// Whether the request made last was made before its pause had ended, for the endpoint had answered another.
    var wasReleased = false
    /// The last event of each subject.
    private var latest: [TextKey: QueuedEvent] = [:]
    /// Numbers of the last events that say something of all before them: that are read as if all of it had been, and of the
    /// channel itself.
    private var lastBarrier: UInt64 = 0
    private var lastExistence: UInt64 = 0

    init(_ endpoint: Endpoint, _ channel: ChannelName) {
        self.endpoint = endpoint
        self.channel = channel
    }

    var isReady: Bool { if case .ready = state { true } else { false } }
    var isUnderWay: Bool { if case .underWay = state { true } else { false } }
    /// Which requests tell its events.
    var attempt: Attempt { failures > 0 ? .again : .first }

    func append(_ event: QueuedEvent) {
        queue.insert(event, event.number)
        counts[event.kind.place] += 1
        if let change = event.change {
            event.before = latest[change.subject]?.number ?? 0
            latest[change.subject] = event
        }
        if event.isBarrier { lastBarrier = event.number }
        if event.kind == .channelExistence { lastExistence = event.number }
    }

    func remove(_ event: QueuedEvent) {
        queue.remove(event.number)
        counts[event.kind.place] -= 1
        if let change = event.change, latest[change.subject] === event {
            latest[change.subject] = queue.element(event.before)
            if lastExistence == event.number { lastExistence = latest[change.subject]?.number ?? 0 }
        }
    }

    /// The event that waits and whose reverse this change is: the endpoint needs neither. None that a request has told,
    /// unless it cannot have arrived; none where the backend may believe something else; and none on which another stands that waits: a client's, or between a channel's
    /// occupation and vacation one of its members', or the reverse.
    func reverse(of change: WebhookChange) -> QueuedEvent? {
        guard let event = latest[change.subject], event.change?.isBeginning == !change.isBeginning,
            !event.isUnderWay, !event.mayBeKnown, event.number > lastBarrier, endpoint.lost.isSure(of: channel)
        else { return nil }
        if event.kind == .channelExistence {
            return queue.last { $0.kind != .subscriptionCount } === event ? event : nil
        }
        return event.number > lastExistence ? event : nil
    }
}

/// Whether a request tells what has not been tried, or what has failed.
enum Attempt: Int, CaseIterable {
    case first, again
}

/// An event that waits for one endpoint.
final class QueuedEvent {
    /// Later ones have larger numbers.
    let number: UInt64
    unowned let line: DeliveryLine
    /// As it stands in a body; shared by all endpoints that want it.
    let text: [UInt8]
    /// One kind.
    let kind: WebhookKinds
    let change: WebhookChange?
    let postedAt: Instant
    /// The number of the line's event of the same subject before it; 0 where there was none.
    var before: UInt64 = 0
    var isUnderWay = false
    /// Whether a request has told it that failed, and that may have arrived all the same.
    var mayBeKnown = false

    init(_ number: UInt64, _ line: DeliveryLine, _ text: [UInt8], of event: WebhookEvent, postedAt: Instant) {
        self.number = number
        self.line = line
        self.text = text
        kind = event.kind
        change = event.change
        self.postedAt = postedAt
    }

    /// Whose share of the bounds it takes.
    var holder: EventHolder { EventHolder(endpoint: line.endpoint, kind: kind.place) }
    /// What it counts against the bounds.
    var bytes: Int { text.count + CourierLimits.bytesPerEvent }

    /// Whether it says something that would make no sense without what came before it.
    var isBarrier: Bool { kind == .clientEvents || kind == .cacheChannels }
}

/// An endpoint with one kind of its events.
struct EventHolder: Hashable {
    let endpoint: Endpoint
    let kind: Int

    var held: Endpoint.Held { endpoint.held[kind] }

    static func == (left: Self, right: Self) -> Bool { left.endpoint === right.endpoint && left.kind == right.kind }

    func hash(into hasher: inout Hasher) {
        hasher.combine(ObjectIdentifier(endpoint))
        hasher.combine(kind)
    }
}

/// What an event says has changed, where a later one may say the reverse.
struct WebhookChange {
    /// The channel itself, or one of its users.
    let subject: TextKey
    /// It is occupied, or the user is a member; else no more.
    let isBeginning: Bool

    static let channel = TextKey("channel")
    var isOfChannel: Bool { subject == Self.channel }
}

extension WebhookEvent {
    var change: WebhookChange? {
        switch self {
        case .channelOccupied: WebhookChange(subject: WebhookChange.channel, isBeginning: true)
        case .channelVacated: WebhookChange(subject: WebhookChange.channel, isBeginning: false)
        case .memberAdded(_, let user): WebhookChange(subject: TextKey("user", user), isBeginning: true)
        case .memberRemoved(_, let user): WebhookChange(subject: TextKey("user", user), isBeginning: false)
        case .clientEvent, .cacheMiss, .subscriptionCount: nil
        }
    }
}

extension WebhookKinds {
    /// Of one kind: its place among all of them.
    var place: Int { min(rawValue.trailingZeroBitCount, Self.count - 1) }

    static let count = names.count
}
