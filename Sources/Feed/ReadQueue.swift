import Sync

/// The reads of the log that homes have asked for: those waiting, in their order, and those under way. Performs no I/O.
///
/// Each read is answered once. Answers may be out of order; a read whose connection was lost goes back to the front,
/// for nothing it asked for has changed. Bounded: beyond `readsMax` a read is refused at once.
package struct ReadQueue {
    /// A read under way.
    package struct Turn: Sendable, Equatable {
        package let read: StreamRead
        /// Which of those under way it is.
        package let number: UInt64
    }

    private struct Entry {
        let read: StreamRead
        /// When it was asked for.
        let since: Duration
        var failures = 0
        var losses = 0
    }

    private let readsMax: Int
    private let depth: Int
    /// The front is at the end of `returned`, the oldest last, and then at the head of `waiting`.
    private var returned: [Entry] = []
    private var waiting = ReadLine<Entry>()
    /// In the order of their numbers.
    private var underWay: [(number: UInt64, entry: Entry)] = []
    private var lastNumber: UInt64 = 0

    /// - Parameters:
    ///   - readsMax: reads waiting or under way at a time.
    ///   - depth: reads under way at a time.
    package init(readsMax: Int = FeedLimits.readsMax, depth: Int = FeedLimits.readDepth) {
        self.readsMax = readsMax
        self.depth = depth
    }

    /// Reads waiting and under way.
    package var count: Int { returned.count + waiting.count + underWay.count }

    /// Whether a read waits.
    package var isAnyWaiting: Bool { returned.count + waiting.count > 0 }

    /// Whether a read waits and may be sent.
    package var wantsTurn: Bool { underWay.count < depth && isAnyWaiting }

    /// A home asks. False where too many do.
    ///
    /// - Parameter now: by the clock of `expire`.
    package mutating func append(_ read: StreamRead, at now: Duration) -> Bool {
        guard count < readsMax else { return false }
        waiting.append(Entry(read: read, since: now))
        return true
    }

    /// The read to send next, now under way; nil where none waits or as many are under way as may be.
    ///
    /// - Parameter isWanted: whether anybody still looks at the answer; other reads are dropped.
    package mutating func next(where isWanted: (StreamRead) -> Bool) -> Turn? {
        guard underWay.count < depth else { return nil }
        while let entry = returned.popLast() ?? waiting.popFirst() {
            guard isWanted(entry.read) else { continue }
            lastNumber += 1
            underWay.append((lastNumber, entry))
            return Turn(read: entry.read, number: lastNumber)
        }
        return nil
    }

    /// The read has been answered.
    package mutating func done(_ turn: Turn) {
        _ = take(turn)
    }

    /// A living server has refused the read: it comes again behind the others. False where it has failed too often,
    /// and the caller owes its answer.
    package mutating func failed(_ turn: Turn) -> Bool {
        guard var entry = take(turn) else { return true }
        entry.failures += 1
        guard entry.failures < FeedLimits.readFailuresMax else { return false }
        waiting.append(entry)
        return true
    }

    /// The connection is gone: what was under way is sent first on the next one. Returns the reads under which too many
    /// connections were lost, whose answers the caller owes.
    package mutating func lost() -> [StreamRead] {
        var hopeless: [StreamRead] = []
        for var (_, entry) in underWay.reversed() {
            entry.losses += 1
            if entry.losses < FeedLimits.readLossesMax {
                returned.append(entry)
            } else {
                hopeless.append(entry.read)
            }
        }
        underWay.removeAll()
        return hopeless
    }

    /// Takes out the reads that were asked for up to `start` and are not under way: their answers the caller owes.
    package mutating func expire(askedUpTo start: Duration) -> [StreamRead] {
        var expired: [StreamRead] = []
        let isToStay = { (entry: Entry) in
            if entry.since > start { return true }
            expired.append(entry.read)
            return false
        }
        returned = returned.filter(isToStay)
        waiting.keep(where: isToStay)
        return expired
    }

    private mutating func take(_ turn: Turn) -> Entry? {
        guard let place = underWay.firstIndex(where: { $0.number == turn.number }) else { return nil }
        return underWay.remove(at: place).entry
    }
}

/// First in, first out: amortized constant time, memory within twice what is in it and a little.
private struct ReadLine<Element> {
    private var elements: ContiguousArray<Element> = []
    private var head = 0

    var count: Int { elements.count - head }

    mutating func append(_ element: Element) {
        elements.append(element)
    }

    mutating func keep(where isToStay: (Element) -> Bool) {
        elements = ContiguousArray(elements[head...].filter(isToStay))
        head = 0
    }

    mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements[head]
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.capacity <= 1_024)
            head = 0
        } else if head >= 256, head * 2 >= elements.count {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }
}
