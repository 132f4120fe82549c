/// What waits, taken by key in turns: whatever one key has waiting, an element of another waits for one of each key before it,
/// and no key has more than a share of the room.
///
/// An element waits, then is under way from `next` to `done`. Where a queue is serial, one of a key is under way at a time, so
/// that a key's elements are done in their order.
///
/// Invariants:
/// - A key stands in a ring, once, exactly where something of its waits that may be taken. The ring apart is for keys that must
///   not hold up the others, and is asked by itself.
/// - What comes back (`again`) stays under way for its key, and is the next of all.
///
/// Worst interleaving: one key's flood is in the queue when another key's element comes (`aFloodOfOneKeyDelaysNobody`).
public struct FairQueue<Key: Hashable, Element> {
    /// The bounds of what waits. What is under way does not count, and what comes back is never refused.
    public struct Bounds: Sendable {
        @usableFromInline let count: Int
        @usableFromInline let countOfKey: Int
        @usableFromInline let cost: Int
        @usableFromInline let newcomersShare: Int

        /// - Parameters:
        ///   - count: elements of all keys.
        ///   - countOfKey: elements of one key.
        ///   - cost: of all elements; at most half of what an `Int` holds.
        ///   - newcomersShare: when the queue is full, keys of which nothing waits find room for one more in so many elements and
        ///     so much of the cost; 0 for no such room.
        public init(count: Int, countOfKey: Int, cost: Int = .max / 2, newcomersShare: Int = 0) {
            self.count = count
            self.countOfKey = countOfKey
            self.cost = cost
            self.newcomersShare = newcomersShare
        }
    }

    /// One key's elements, from when the first comes until the last is done. Belongs to its queue.
    public final class Line {
        @usableFromInline let key: Key
        @usableFromInline var waiting = Fifo<(element: Element, cost: Int)>()
        @usableFromInline var underWay = 0
        @usableFromInline var isApart: Bool
        /// Whether it stands in a ring.
        @usableFromInline var hasTurn = false

        @usableFromInline init(_ key: Key, isApart: Bool) {
            self.key = key
            self.isApart = isApart
        }
    }

    @usableFromInline struct Ring {
        @usableFromInline var turns = Fifo<Line>()
        /// What came back, the next one last.
        @usableFromInline var returned: [(element: Element, line: Line, cost: Int)] = []

        @usableFromInline init() {}
    }

    @usableFromInline let bounds: Bounds
    @usableFromInline let isSerial: Bool
    @usableFromInline var lines: [Key: Line] = [:]
    @usableFromInline var ring = Ring()
    @usableFromInline var ringApart = Ring()
    @usableFromInline var waitingCount = 0
    @usableFromInline var waitingCost = 0
    @usableFromInline var underWayCount = 0

    /// - Parameter isSerial: whether one element of a key is under way at a time.
    @inlinable public init(_ bounds: Bounds, isSerial: Bool) {
        self.bounds = bounds
        self.isSerial = isSerial
    }

    /// Elements that wait.
    @inlinable public var count: Int { waitingCount }
    /// What they cost.
    @inlinable public var cost: Int { waitingCost }
    /// Elements taken and not done, those that came back among them.
    @inlinable public var underWay: Int { underWayCount }
    /// Keys of which something waits or is under way.
    @inlinable public var keyCount: Int { lines.count }
    /// Whether something waits in the ring apart.
    @inlinable public var isAnyApart: Bool { !ringApart.returned.isEmpty || !ringApart.turns.isEmpty }

    /// Whether something of that key waits or is under way.
    @inlinable public func contains(_ key: Key) -> Bool { lines[key] != nil }

    /// Takes an element, and returns the line by which it is named from then on; nil where too much waits.
    ///
    /// - Parameter isApart: whether the key, where it is new, takes its turns apart.
    @inlinable public mutating func append(
        _ element: Element, of key: Key, cost: Int = 0, isApart: Bool = false
    ) -> Line? {
        let known = lines[key]
        guard hasRoom(beside: known?.waiting.count ?? 0, cost) else { return nil }
        let line = known ?? Line(key, isApart: isApart)
        if known == nil { lines[key] = line }
        enqueue(element, line, cost)
        return line
    }

    @inlinable func hasRoom(beside countOfKey: Int, _ cost: Int) -> Bool {
        guard countOfKey < bounds.countOfKey else { return false }
        let share = countOfKey == 0 ? bounds.newcomersShare : 0
        let countMax = bounds.count + (share > 0 ? max(1, bounds.count / share) : 0)
        let costMax = bounds.cost + (share > 0 ? bounds.cost / share : 0)
        return waitingCount < countMax && cost <= costMax - waitingCost
    }

    @inlinable mutating func enqueue(_ element: Element, _ line: Line, _ cost: Int) {
        line.waiting.append((element, cost))
        waitingCount += 1
        waitingCost += cost
        takeTurn(line)
    }

    /// The line goes into its ring, where something of it may be taken.
    @inlinable mutating func takeTurn(_ line: Line) {
        guard !line.hasTurn, !line.waiting.isEmpty, !isSerial || line.underWay == 0 else { return }
        line.hasTurn = true
        if line.isApart { ringApart.turns.append(line) } else { ring.turns.append(line) }
    }

    /// The next element, from then on under way; nil where none may be taken.
    @inlinable public mutating func next(isApart: Bool = false) -> Element? {
        if let (element, _, cost) = isApart ? ringApart.returned.popLast() : ring.returned.popLast() {
            waitingCount -= 1
            waitingCost -= cost
            return element
        }
        guard let line = isApart ? ringApart.turns.popFirst() : ring.turns.popFirst() else { return nil }
        line.hasTurn = false
        guard let (element, cost) = line.waiting.popFirst() else { return nil }
        waitingCount -= 1
        waitingCost -= cost
        line.underWay += 1
        underWayCount += 1
        takeTurn(line)
        return element
    }

    /// An element under way is done.
    @inlinable public mutating func done(_ line: Line) {
        line.underWay -= 1
        underWayCount -= 1
        takeTurn(line)
        if line.waiting.isEmpty, line.underWay == 0 { lines[line.key] = nil }
    }

    /// An element under way has to be taken again, before all others; of several, the one that came back last.
    @inlinable public mutating func again(_ element: Element, _ line: Line, cost: Int = 0) {
        waitingCount += 1
        waitingCost += cost
        if line.isApart {
            ringApart.returned.append((element, line, cost))
        } else {
            ring.returned.append((element, line, cost))
        }
    }

    /// An element under way has to be taken again, behind the others of its key.
    public mutating func later(_ element: Element, _ line: Line, cost: Int = 0) {
        line.underWay -= 1
        underWayCount -= 1
        enqueue(element, line, cost)
    }

    /// Whether the key of an element under way, the only one, takes its turns apart from now on.
    public mutating func set(_ line: Line, isApart: Bool) {
        line.isApart = isApart
    }

    /// Takes out what waits and is over, in linear time. What came back is done with that.
    public mutating func remove(where isOver: (Element) -> Bool) -> [Element] {
        var removed: [Element] = []
        var cost = 0
        for line in lines.values where (0..<line.waiting.count).contains(where: { isOver(line.waiting[$0].element) }) {
            line.waiting.sweep {
                guard isOver($0.element) else { return true }
                removed.append($0.element)
                cost += $0.cost
                return false
            }
        }
        for (element, line, itsCost) in Self.part(&ring.returned, isOver) + Self.part(&ringApart.returned, isOver) {
            removed.append(element)
            cost += itsCost
            done(line)
        }
        guard !removed.isEmpty else { return [] }
        waitingCount -= removed.count
        waitingCost -= cost
        Self.sweep(&ring.turns)
        Self.sweep(&ringApart.turns)
        lines = lines.filter { !$0.value.waiting.isEmpty || $0.value.underWay > 0 }
        return removed
    }

    /// Takes out what waits of the key of an element under way, the only one.
    public mutating func removeWaiting(of line: Line) -> [Element] {
        var removed: [Element] = []
        while let (element, cost) = line.waiting.popFirst() {
            removed.append(element)
            waitingCount -= 1
            waitingCost -= cost
        }
        if line.hasTurn { line.isApart ? Self.sweep(&ringApart.turns) : Self.sweep(&ring.turns) }
        return removed
    }

    private static func part(
        _ returned: inout [(element: Element, line: Line, cost: Int)], _ isOver: (Element) -> Bool
    ) -> [(element: Element, line: Line, cost: Int)] {
        let over = returned.filter { isOver($0.element) }
        if !over.isEmpty { returned.removeAll { isOver($0.element) } }
        return over
    }

    private static func sweep(_ turns: inout Fifo<Line>) {
        turns.sweep {
            $0.hasTurn = !$0.waiting.isEmpty
            return $0.hasTurn
        }
    }
}
