import Clock
import Reactor

/// Work that a loop does beside its input: at a certain time, or as soon as others have had their turns. One deadline and
/// one message to the loop itself serve all of it.
///
/// Each kind does a limited amount in one turn, and says when it wants the next. Due work waits behind the mail that is
/// there: it is done when `LoopMessage.due` arrives, which is posted once however much is due.
///
/// Worst interleavings, each with its test in `DueWorkTests`:
/// - A kind is set to an earlier time than the armed deadline, and to a later one. The deadline is always the earliest.
/// - A kind becomes due while the message is in flight. No second message is posted, and the first one finds it.
/// - A kind says in its own turn that more is due. That waits for the next message, behind others' mail.
final class DueWork: EventSource {
    enum Kind: Int, CaseIterable {
        /// Close connections whose peers have gone, and those that must go elsewhere.
        case departures, drain
        /// Continue connections that sent more than one turn takes.
        case turns
        /// Handle requests that do not say who sends them.
        case strangers
        /// Tell connections of new apps.
        case apps
        /// This loop's ordinary channels, its users, and streams whose readers back off.
        case channels, users, pauses
        case identities
        /// Begin TLS handshakes that wait.
        case handshakes
        /// Sweep streams without subscribers, and check slow connections.
        case lingering, readers
    }

    private let loop: EventLoop
    private let post: () -> Void
    var perform: (Kind) -> Void = { _ in }
    /// In nanoseconds; `never` where there is nothing to do.
    private var times = ContiguousArray<UInt64>(repeating: never, count: Kind.allCases.count)
    /// The time for which the deadline is armed.
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

    /// The kind has work at that time, and none before; nil: none at all.
    func set(_ kind: Kind, at time: Instant?) {
        let time = time?.nanoseconds ?? Self.never
        guard times[kind.rawValue] != time else { return }
        times[kind.rawValue] = time
        arrange()
    }

    func set(_ kind: Kind, after duration: Duration) {
        set(kind, at: Instant.read().advanced(by: duration))
    }

    /// The kind has work when others have had their turns.
    func setNow(_ kind: Kind) {
        set(kind, at: loop.now)
    }

    func isSet(_ kind: Kind) -> Bool { times[kind.rawValue] != Self.never }

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
        // A loop that is ending has no deadlines any more. Work that is due at once is still done.
        guard earliest != armedFor, isAdded else { return }
        armedFor = earliest
        loop.setDeadline(self, earliest == Self.never ? nil : Instant(nanoseconds: earliest))
    }
}
