import HubEngine
import Synchronization

/// How much of each app's ordinary channels is in the loops' mailboxes. Any thread.
///
/// Counted: clients' events on their way to a shard, publishes on their way from a shard to other loops (one for each event
/// and loop), backends' calls to other loops, and subscribes to a shard with their answers. Members coming and going, and
/// counts, cannot be held back and are not counted.
///
/// While there is too much, apps with more than their share are held back: clients' events and repeated subscribes are
/// dropped (nobody waits for them), and backends are told to come back later. A first subscribe is always taken, because
/// clients never repeat it; a connection has at most as many in flight as it may have channels.
final class PublishBacklog: Sendable {
    /// Apps are told apart by their index modulo this. Beyond it, apps with the same slot share its part.
    private static let slotCount = 1_024

    private let total = Atomic<Int>(0)
    /// Slots that have something.
    private let active = Atomic<Int>(0)
    private let slots: [Slot]

    private final class Slot: Sendable {
        let messages = Atomic<Int>(0)
    }

    init() {
        slots = (0..<Self.slotCount).map { _ in Slot() }
    }

    var count: Int { total.load(ordering: .relaxed) }

    /// - Parameter app: its index, as everywhere here.
    func add(of app: Int) {
        total.add(1, ordering: .relaxed)
        if slots[app % Self.slotCount].messages.add(1, ordering: .relaxed).oldValue == 0 {
            active.add(1, ordering: .relaxed)
        }
    }

    func subtract(of app: Int) {
        total.subtract(1, ordering: .relaxed)
        if slots[app % Self.slotCount].messages.subtract(1, ordering: .relaxed).newValue == 0 {
            active.subtract(1, ordering: .relaxed)
        }
    }

    /// Whether nothing more is taken of an app: all together have more than `max`, or more than half of it and the app more
    /// than its even share. One share is left for an app that has nothing yet.
    func isFull(for app: Int, max: Int) -> Bool {
        let count = count
        guard count > max / 2 else { return false }
        let share = max / (1 + Swift.max(1, active.load(ordering: .relaxed)))
        return count > max || slots[app % Self.slotCount].messages.load(ordering: .relaxed) > share
    }
}

extension ChannelRequest {
    /// Whether it counts while it is in a mailbox.
    var isInBacklog: Bool {
        switch self {
        case .relay, .enter: true
        case .withdraw, .exit: false
        }
    }
}

extension ChannelAnswer {
    /// The app for which it counts while it is in a mailbox. A refusal is a few bytes and does not count.
    var appInBacklog: Int? {
        guard case .entered(let entered) = self else { return nil }
        return entered.key.app
    }
}
