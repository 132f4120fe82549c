/// A queue that serves keys in turns. However much one key has waiting, an element of another key waits for at most one
/// element of each key before it. No key may fill more than its share.
///
/// An element waits, and is then under way from `next` to `done`. In a serial queue each key has at most one element under
/// way, so its elements are processed in order.
///
/// Invariants:
/// - A line is in its ring, once, exactly when one of its waiting elements may be taken. Keys that must not delay others use
///   a separate ring, which `next(isApart: true)` polls.
/// - An element that `again` returns still counts as under way for its key, and is taken before all others.
///
/// Worst interleaving: one key's flood is queued when another key's element arrives (`aFloodOfOneKeyDelaysNobody`).
public struct FairQueue<Key: Hashable, Element> {
    /// The bounds of what waits. Elements under way do not count, and returned elements are never refused.
    public struct Bounds: Sendable {
        @usableFromInline let count: Int
        @usableFromInline let countOfKey: Int
        @usableFromInline let cost: Int
        @usableFromInline let newcomersShare: Int

        /// - Parameters:
        ///   - count: elements of all keys.
        ///   - countOfKey: elements of one key.
        ///   - cost: of all elements; at most `Int.max / 2`.
        ///   - newcomersShare: when the queue is full, a key with nothing waiting may still use a reserve of this fraction
        ///     (one part in `newcomersShare`) of `count` and `cost`; 0 for no reserve.
        public init(count: Int, countOfKey: Int, cost: Int = .max / 2, newcomersShare: Int = 0) {
            self.count = count
            self.countOfKey = countOfKey
            self.cost = cost
            self.newcomersShare = newcomersShare
        }
    }

    /// The elements of one key, from its first arrival until the last is done. Belongs to its queue.
    public final class Line {
        @usableFromInline let key: Key
        @usableFromInline var waiting = Fifo<(element: Element, cost: Int)>()
        @usableFromInline var underWay = 0
        @usableFromInline var isApart: Bool
        @usableFromInline var hasTurn = false

        @usableFromInline init(_ key: Key, isApart: Bool) {
            self.key = key
            self.isApart = isApart
        }
    }

    @usableFromInline struct Ring {
        @usableFromInline var turns = Fifo<Line>()
        /// Elements returned by `again`; the last is taken first.
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

    /// - Parameter isSerial: whether only one element of a key may be under way at a time.
    @inlinable public init(_ bounds: Bounds, isSerial: Bool) {
        self.bounds = bounds
        self.isSerial = isSerial
    }

    /// Elements that wait.
    @inlinable public var count: Int { waitingCount }
    /// Their cost.
    @inlinable public var cost: Int { waitingCost }
    /// Elements taken and not done, including returned ones.
    @inlinable public var underWay: Int { underWayCount }
    /// Keys with elements that wait or are under way.
    @inlinable public var keyCount: Int { lines.count }
    /// Keys that have their turn before a key that gets one now.
    @inlinable public var turnCount: Int { ring.turns.count }
    /// Whether anything waits in the separate ring.
    @inlinable public var isAnyApart: Bool { !ringApart.returned.isEmpty || !ringApart.turns.isEmpty }

    /// Whether the key has elements that wait or are under way.
    @inlinable public func contains(_ key: Key) -> Bool { lines[key] != nil }

    /// Adds an element and returns its line, which identifies it later; nil when too much waits.
    ///
    /// - Parameter isApart: whether a new key uses the separate ring.
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

    /// Puts the line into its ring if one of its elements may be taken.
    @inlinable mutating func takeTurn(_ line: Line) {
        guard !line.hasTurn, !line.waiting.isEmpty, !isSerial || line.underWay == 0 else { return }
        line.hasTurn = true
        if line.isApart { ringApart.turns.append(line) } else { ring.turns.append(line) }
    }

    /// Takes the next element, which is then under way; nil when none may be taken.
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

    /// Takes the first waiting element of a key that has one under way, if it `fits`. Both are then under way as one.
    @inlinable public mutating func nextBehind(_ line: Line, where fits: (Element) -> Bool) -> Element? {
        guard let (element, cost) = line.waiting.first, fits(element) else { return nil }
        line.waiting.popFirst()
        waitingCount -= 1
        waitingCost -= cost
        return element
    }

    /// Puts an element of a key that has one under way in front of the key's waiting elements.
    @inlinable public mutating func putInFront(_ element: Element, _ line: Line, cost: Int = 0) {
        line.waiting.prepend((element, cost))
        waitingCount += 1
        waitingCost += cost
    }

    /// Takes the next element, which is done at once: for elements that are never under way.
    @inlinable public mutating func pop() -> Element? {
        guard let line = ring.returned.last?.line ?? ring.turns.first, let element = next() else { return nil }
        done(line)
        return element
    }

    /// An element under way is done.
    @inlinable public mutating func done(_ line: Line) {
        line.underWay -= 1
        underWayCount -= 1
        takeTurn(line)
        if line.waiting.isEmpty, line.underWay == 0 { lines[line.key] = nil }
    }

    /// Puts an element under way back, to be taken before all others. Of several, the last one comes first.
    @inlinable public mutating func again(_ element: Element, _ line: Line, cost: Int = 0) {
        waitingCount += 1
        waitingCost += cost
        if line.isApart {
            ringApart.returned.append((element, line, cost))
        } else {
            ring.returned.append((element, line, cost))
        }
    }

    /// Puts an element under way back behind the other elements of its key.
    public mutating func later(_ element: Element, _ line: Line, cost: Int = 0) {
        line.underWay -= 1
        underWayCount -= 1
        enqueue(element, line, cost)
    }

    /// Chooses the ring of a key. Call it in a serial queue while the key's element is under way: it is then in no ring.
    public mutating func set(_ line: Line, isApart: Bool) {
        line.isApart = isApart
    }

    /// Removes waiting elements that are over, in linear time. Returned elements among them are then done.
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

    /// Removes all waiting elements of a key whose only element under way still runs.
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
