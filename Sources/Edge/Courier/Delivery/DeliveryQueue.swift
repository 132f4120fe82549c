import Bytes
import Clock
import HubEngine
import Pusher
import Reactor

/// A line: the events of one channel that wait for one endpoint, in order.
///
/// Valid transitions: idle → ready; ready → underWay, idle; underWay → ready, paused, spent, idle; paused → ready, idle.
/// Invariants: it is in its endpoint's table exactly while it holds events, and in its lane's rows exactly while it is
/// ready.
final class DeliveryQueue {
    enum State {
        case idle, ready, underWay
        case paused(until: Instant)
        /// After the last attempt: the hub is stopping.
        case spent
    }

    /// The endpoint owns its lines; callers that use a line hold the endpoint.
    unowned let endpoint: Endpoint
    let channel: ChannelName
    var state = State.idle
    private(set) var queue = SortedDeque<QueuedEvent>()
    /// The number of queued events of each kind.
    private(set) var counts = SIMD8<Int32>.zero
    /// Its key in its lane's rows: the number of its first event.
    var rowNumber: UInt64 = 0
    var failures = 0
    /// Whether its last request was made before its pause ended, since the endpoint had answered another.
    var wasReleased = false
    private var latest: [TextKey: QueuedEvent] = [:]
    /// Numbers of the last barrier (an event understood only if all before it was told), and of the last event about the
    /// channel itself.
    private var lastBarrier: UInt64 = 0
    private var lastExistence: UInt64 = 0

    init(_ endpoint: Endpoint, _ channel: ChannelName) {
        self.endpoint = endpoint
        self.channel = channel
    }

    var isReady: Bool { if case .ready = state { true } else { false } }
    var isUnderWay: Bool { if case .underWay = state { true } else { false } }
    /// The kind of request that carries its events.
    var attempt: Attempt { failures > 0 ? .again : .first }

    func append(_ event: QueuedEvent) {
        queue.insert(event, event.number)
        counts[event.kind.index] += 1
        if let change = event.change {
            event.before = latest[change.subject]?.number ?? 0
            latest[change.subject] = event
        }
        if event.isBarrier { lastBarrier = event.number }
        if event.kind == .channelExistence { lastExistence = event.number }
    }

    func remove(_ event: QueuedEvent) {
        queue.remove(event.number)
        counts[event.kind.index] -= 1
        if let change = event.change, latest[change.subject] === event {
            latest[change.subject] = queue.element(event.before)
            if lastExistence == event.number { lastExistence = latest[change.subject]?.number ?? 0 }
        }
    }

    /// The waiting event that this change reverses, so that the endpoint needs neither. Nil if:
    /// - a request carried the event and may have arrived;
    /// - the backend may believe something else;
    /// - a waiting event depends on it: a client event or a cache miss, or a member event between a channel's occupation
    ///   and vacation, or the reverse.
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

/// Whether a request is a first attempt or a retry.
enum Attempt: Int, CaseIterable {
    case first, again
}

/// An event that waits for its request to one endpoint.
final class QueuedEvent {
    /// Increases with each event.
    let number: UInt64
    unowned let line: DeliveryQueue
    /// Its JSON in a body; shared by all endpoints that want it.
    let text: [UInt8]
    /// Exactly one kind.
    let kind: WebhookKinds
    let change: WebhookChange?
    let postedAt: Instant
    /// The number of the line's previous event of the same subject; 0 if there was none.
    var before: UInt64 = 0
    var isUnderWay = false
    /// Whether a failed request carried it and may have arrived all the same.
    var mayBeKnown = false
    private let receipt: WebhookReceipt?
    /// Whether it is kept until it was delivered, and told by another hub if not by this one.
    var isKept: Bool { receipt != nil }

    init(
        _ number: UInt64, _ line: DeliveryQueue, _ text: [UInt8], of event: WebhookEvent, postedAt: Instant,
        _ receipt: WebhookReceipt? = nil
    ) {
        self.receipt = receipt
        self.number = number
        self.line = line
        self.text = text
        kind = event.kind
        change = event.change
        self.postedAt = postedAt
    }

    /// The holder whose share of the bounds it uses.
    var holder: EventHolder { EventHolder(endpoint: line.endpoint, kind: kind.index) }
    /// The bytes that count against the bounds.
    var bytes: Int { text.count + CourierLimits.bytesPerEvent }

    /// Whether it makes no sense without the events before it.
    var isBarrier: Bool { kind == .clientEvents || kind == .cacheChannels }
}

/// Who holds events: one kind at one endpoint, which has a bound of its own.
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

/// A change that a later event may reverse.
struct WebhookChange {
    /// The channel itself, or one of its users.
    let subject: TextKey
    /// True: the channel became occupied or the user joined. False: the channel became vacant or the user left.
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
    /// For a single kind: its index.
    var index: Int { min(rawValue.trailingZeroBitCount, Self.count - 1) }

    static let count = names.count
}
