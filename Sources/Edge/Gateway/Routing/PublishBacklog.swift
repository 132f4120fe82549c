import Channels
import Synchronization

/// How much of ordinary channels is in the loops' mailboxes, of each app: clients' events on their way to a home, what is
/// published on its way from a home to another loop, one for each event and loop, what backends ask of other loops, and what
/// subscribes ask of a home, with its answers. Nobody waits for clients' events, so they are dropped while there is too much,
/// as are subscribes to what a connection is in already, and backends are told to come back later: those of the apps that
/// have more than their share of it. A first subscribe is always taken, for clients never repeat it; a connection has no more
/// of them under way than it may have channels. Members who come and go, and counts, are nobody's to hold back, and are not
/// in it. Any thread.
final class PublishBacklog: Sendable {
    /// Apps are told apart by their index modulo this: with more of them, those that share a place share its part, too.
    private static let places = 1_024

    private let total = Atomic<Int>(0)
    /// Places that have something.
    private let active = Atomic<Int>(0)
    private let table: [Place]

    private final class Place: Sendable {
        let messages = Atomic<Int>(0)
    }

    init() {
        table = (0..<Self.places).map { _ in Place() }
    }

    /// Of all apps.
    var count: Int { total.load(ordering: .relaxed) }

    /// - Parameter app: its index, as everywhere here.
    func add(of app: Int) {
        total.add(1, ordering: .relaxed)
        if table[app % Self.places].messages.add(1, ordering: .relaxed).oldValue == 0 {
            active.add(1, ordering: .relaxed)
        }
    }

    func subtract(of app: Int) {
        total.subtract(1, ordering: .relaxed)
        if table[app % Self.places].messages.subtract(1, ordering: .relaxed).newValue == 0 {
            active.subtract(1, ordering: .relaxed)
        }
    }

    /// Whether nothing more should be taken of an app: all together have more than `max`; or more than half of it, and the
    /// app has its even share, one of which is left to an app that has nothing yet.
    func isFull(for app: Int, max: Int) -> Bool {
        let count = count
        guard count > max / 2 else { return false }
        let share = max / (1 + Swift.max(1, active.load(ordering: .relaxed)))
        return count > max || table[app % Self.places].messages.load(ordering: .relaxed) > share
    }
}

extension ChannelRequest {
    /// Whether it counts while it is in a mailbox.
    var isInBacklog: Bool {
        switch self {
        case .relay, .enter: true
        case .exit: false
        }
    }
}

extension ChannelAnswer {
    /// The app for which it counts while it is in a mailbox. A refusal is a few bytes.
    var appInBacklog: Int? {
        guard case .entered(let entered) = self else { return nil }
        return entered.key.app
    }
}
