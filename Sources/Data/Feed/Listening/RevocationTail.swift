import Clock
import Sync

/// Decides when to read `sync.revocation` and from where: all of it on every connect, then exactly what became visible
/// since, as `Tail` does for events. Performs no I/O.
///
/// On a connection, nothing else is read before the first read is complete: a hub that does not know who is revoked
/// delivers no event and no position. Reading a page twice does no harm, since each user's latest time holds.
package struct RevocationTail {
    /// What to send: `sync.revocations`.
    package struct Query: Sendable, Equatable {
        /// The snapshot of the previous read; nil for all.
        package let previous: String?
        /// The last user of the previous page.
        package let after: String?
    }

    private let pageRows: Int
    private let interval: Duration
    private var lastRead = Instant(nanoseconds: 0)
    private var isConnected = false
    private var previous: String?
    /// A read in several pages: the snapshot of its first page, and the last user so far.
    private var run: (first: String, after: String)?
    private var isWoken = false
    /// Whether a query is in flight.
    package private(set) var isBusy = false
    /// Whether all revocations that stood at the connect have been read.
    package private(set) var isComplete = false

    /// - Parameter interval: the shortest time between two reads of new revocations.
    package init(pageRows: Int = FeedLimits.revocationRows, interval: Duration = .zero) {
        self.pageRows = pageRows
        self.interval = interval
    }

    /// A connection is up.
    package mutating func connected() {
        disconnected()
        isConnected = true
        isWoken = true
    }

    /// The connection was lost, and with it the answer in flight.
    package mutating func disconnected() {
        isConnected = false
        isComplete = false
        previous = nil
        run = nil
        isBusy = false
    }

    /// Something was committed, or the poll is due.
    package mutating func wake() {
        isWoken = true
    }

    /// Whether a page should be read.
    package var wantsRead: Bool { isConnected && !isBusy && (isWoken || run != nil) }

    /// Whether a read has more pages to come.
    package var isAmidRead: Bool { run != nil }

    /// How long the next page must wait, since every commit wakes.
    package func pause(at now: Instant) -> Duration {
        isComplete && !isAmidRead ? interval - now.duration(since: lastRead) : .zero
    }

    /// The next query; nil while one is in flight, or if nothing should be read now.
    package mutating func nextQuery(at now: Instant) -> Query? {
        guard wantsRead, pause(at: now) <= .zero else { return nil }
        lastRead = now
        // A commit while the query is in flight wakes again.
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
