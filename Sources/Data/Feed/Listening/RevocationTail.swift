import Clock
import Sync

/// Decides when to read `sync.revocation` and from where: all of it on every connect, then exactly what became visible
/// since, as `Tail` does for events. Performs no I/O.
///
/// On a connection nothing else is read before the first read is complete: a hub that does not know who is revoked
/// hands out no event and no position. A page more than once does no harm, for the latest moment of each user stands.
package struct RevocationTail {
    /// What to send: `sync.revocations`.
    package struct Query: Sendable, Equatable {
        /// The snapshot read up to; nil for all.
        package let previous: String?
        /// The last user of the page before.
        package let after: String?
    }

    private let pageRows: Int
    private let interval: Duration
    /// When the last page was asked for.
    private var lastRead = Instant(nanoseconds: 0)
    private var isConnected = false
    private var previous: String?
    /// A read in pages: the snapshot of its first page, and the last user so far.
    private var run: (first: String, after: String)?
    private var isWoken = false
    /// Whether an answer is awaited.
    package private(set) var isBusy = false
    /// Whether all that stood when the connection came has been read.
    package private(set) var isComplete = false

    /// - Parameter interval: from one look for new ones to the next, at least.
    package init(pageRows: Int = FeedLimits.revocationRows, interval: Duration = .zero) {
        self.pageRows = pageRows
        self.interval = interval
    }

    /// A connection is there.
    package mutating func connected() {
        disconnected()
        isConnected = true
        isWoken = true
    }

    /// The connection is gone, and with it the answer under way.
    package mutating func disconnected() {
        isConnected = false
        isComplete = false
        previous = nil
        run = nil
        isBusy = false
    }

    /// Something was committed, or it is time to look.
    package mutating func wake() {
        isWoken = true
    }

    /// Whether something is to be read now.
    package var wantsRead: Bool { isConnected && !isBusy && (isWoken || run != nil) }

    /// Whether the next page is one of a read that has begun.
    package var isAmidRead: Bool { run != nil }

    /// How long the next page has to wait: every commit of anything wakes.
    package func pause(at now: Instant) -> Duration {
        isComplete && !isAmidRead ? interval - now.duration(since: lastRead) : .zero
    }

    /// What to send next; nil while an answer is awaited, or where nothing is to be read now.
    package mutating func nextQuery(at now: Instant) -> Query? {
        guard wantsRead, pause(at: now) <= .zero else { return nil }
        lastRead = now
        // What commits while the answer is on its way wakes again.
        if run == nil { isWoken = false }
        isBusy = true
        return Query(previous: previous, after: run?.after)
    }

    /// A page was read in `snapshot`.
    package mutating func received(_ page: [Revocation], snapshot: String) {
        isBusy = false
        let first = run?.first ?? snapshot
        if page.count >= pageRows, let last = page.last {
            run = (first, last.userID)
        } else {
            run = nil
            previous = first
            isComplete = true
        }
    }
}
