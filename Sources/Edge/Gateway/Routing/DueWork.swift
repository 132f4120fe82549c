import Clock
import Reactor

/// What a loop has to do beside what comes in: at a certain time, or as soon as others have had their turns. One deadline
/// and one message to the loop itself for all of it.
///
/// Each kind does so much in one turn at most, and says when it wants the next one. What is due already stands behind the mail
/// that is there: it is done when `LoopMessage.due` comes, which is posted once however much is due.
///
/// Worst interleavings, each with its test in `DueWorkTests`:
/// - a kind is set to an earlier time than the deadline stands for, and to a later one: the deadline is the earliest of
///   all kinds' at any time;
/// - a kind becomes due while the message is under way: no second message is posted, and the first one finds it;
/// - a kind says in its own turn that more is due: that waits for the next message, behind the mail of others.
final class DueWork: EventSource {
    enum Kind: Int, CaseIterable {
        /// Connections whose peers have gone have still to be closed.
        case departures
        /// Connections have sent more than one turn takes.
        case turns
        /// Connections have still to learn of new apps.
        case apps
        /// Something of this loop's ordinary channels, users, and streams that wait for pages.
        case channels, users, pauses
        /// Identities are to be looked at.
        case identities
        /// TLS handshakes that wait may begin.
        case handshakes
        /// Streams that nobody takes are to be looked at, and connections that take little.
        case lingering, readers
    }

    private let loop: EventLoop
    private let post: () -> Void
    /// Does what is due of a kind, some of it.
    var perform: (Kind) -> Void = { _ in }
    /// In nanoseconds; `never` where there is nothing to do.
    private var times = ContiguousArray<UInt64>(repeating: never, count: Kind.allCases.count)
    /// What the deadline stands for.
    private var armedFor = never
    private var isPosted = false

    private static let never = UInt64.max

    /// - Parameter post: posts `LoopMessage.due`; `turn` follows.
    init(on loop: EventLoop, post: @escaping () -> Void) throws(ReactorError) {
        self.loop = loop
        self.post = post
        super.init()
        try loop.add(self)
    }

    /// The kind has something to do then, and nothing before; nil: nothing at all.
    func set(_ kind: Kind, at time: Instant?) {
        let time = time?.nanoseconds ?? Self.never
        guard times[kind.rawValue] != time else { return }
        times[kind.rawValue] = time
        arrange()
    }

    func set(_ kind: Kind, after duration: Duration) {
        set(kind, at: Instant.read().advanced(by: duration))
    }

    /// The kind has something to do when others have had their turns.
    func setNow(_ kind: Kind) {
        set(kind, at: loop.now)
    }

    func isSet(_ kind: Kind) -> Bool { times[kind.rawValue] != Self.never }

    /// The message has come.
    func turn() {
        let now = loop.now.nanoseconds
        for kind in Kind.allCases where times[kind.rawValue] <= now {
            times[kind.rawValue] = Self.never
            perform(kind)
        }
        // Not before: a kind that is set meanwhile would post a message for what is done in this turn.
        isPosted = false
        arrange()
    }

    override func deadlineReached() {
        armedFor = Self.never
        arrange()
    }

    private func arrange() {
        var earliest = Self.never
        for time in times { earliest = min(earliest, time) }
        if earliest <= loop.now.nanoseconds {
            guard !isPosted else { return }
            isPosted = true
            return post()
        }
        // A loop that ends has no deadlines any more; what is due at once is done nevertheless.
        guard earliest != armedFor, isAdded else { return }
        armedFor = earliest
        loop.setDeadline(self, earliest == Self.never ? nil : Instant(nanoseconds: earliest))
    }
}
