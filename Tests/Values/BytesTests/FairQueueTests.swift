import Bytes
import TestSupport
import Testing

/// Order of turns, and room in the queue.
@Suite(.timeLimit(.minutes(15))) final class FairQueueTests {
    private typealias Queue = FairQueue<String, Item>

    private final class Item {
        let key: String
        let number: Int
        let cost: Int
        var line: Queue.Line?

        init(_ key: String, _ number: Int, _ cost: Int) {
            (self.key, self.number, self.cost) = (key, number, cost)
        }
    }

    private var queue = Queue(Queue.Bounds(count: 1_000, countOfKey: 100), isSerial: true)

    // The macros of Testing take immutable values.

    private func add(_ key: String, _ number: Int = 0, cost: Int = 0, isApart: Bool = false) -> Bool {
        let item = Item(key, number, cost)
        item.line = queue.append(item, of: key, cost: cost, isApart: isApart)
        return item.line != nil
    }

    private func next(isApart: Bool = false) -> Item? { queue.next(isApart: isApart) }

    private func done(_ item: Item?) {
        if let line = item?.line { queue.done(line) }
    }

    private func again(_ item: Item?) {
        if let item, let line = item.line { queue.again(item, line, cost: item.cost) }
    }

    private func remove(where isOver: (Item) -> Bool = { _ in true }) -> [Int] {
        queue.remove(where: isOver).map(\.number).sorted()
    }

    private func names(_ count: Int = .max, isApart: Bool = false) -> [String] {
        var names: [String] = []
        while names.count < count, let item = next(isApart: isApart) {
            names.append("\(item.key)\(item.number)")
            done(item)
        }
        return names
    }

    // MARK: Batches

    /// Elements of a key go together, and those that come back are again the first of their key.
    @Test func elementsGoTogether() throws {
        for number in 1...5 { #expect(add("a", number, cost: 10)) }
        #expect(add("b", 1, cost: 1))
        #expect(queue.turnCount == 2)
        let first = next()
        let line = try #require(first?.line)
        #expect(queue.turnCount == 1)
        let behind = [queue.nextBehind(line) { _ in true }, queue.nextBehind(line) { $0.number < 4 }]
        #expect(queue.nextBehind(line) { $0.number > 4 } == nil)
        #expect(behind.map { $0?.number } == [2, 3])
        #expect(queue.count == 3 && queue.cost == 21 && queue.underWay == 1)
        for item in behind.reversed() {
            if let item { queue.putInFront(item, line, cost: item.cost) }
        }
        #expect(queue.count == 5 && queue.cost == 41)
        done(first)
        #expect(names() == ["b1", "a2", "a3", "a4", "a5"])
        #expect(queue.keyCount == 0 && queue.count == 0 && queue.cost == 0)
    }

    /// All of a key go together, and are done together.
    @Test func theLastGoTogether() throws {
        for number in 1...2 { #expect(add("a", number)) }
        let first = next()
        let line = try #require(first?.line)
        #expect(queue.nextBehind(line) { _ in true }?.number == 2)
        #expect(queue.nextBehind(line) { _ in true } == nil && queue.contains("a"))
        done(first)
        #expect(!queue.contains("a") && queue.count == 0 && queue.underWay == 0)
    }

    // MARK: Turns

    @Test func keysAreServedInTurn() {
        for number in 1...3 { #expect(add("a", number)) }
        for number in 1...2 { #expect(add("b", number)) }
        #expect(add("c", 1))
        #expect(names() == ["a1", "b1", "c1", "a2", "b2", "a3"])
        #expect(queue.keyCount == 0 && queue.count == 0 && queue.underWay == 0)
    }

    /// Whatever one flooder sends, or three together: another key's element is among the next and is not refused.
    @Test(arguments: [1, 3]) func aFloodOfOneKeyDelaysNobody(_ flooders: Int) {
        queue = Queue(Queue.Bounds(count: 20_000, countOfKey: 200), isSerial: false)
        var refused = 0
        for number in 0..<40_000 {
            for flooder in 0..<flooders where !add("flood\(flooder)", number) { refused += 1 }
        }
        #expect(queue.count == flooders * 200 && refused == flooders * 39_800)
        let flood = (0..<16).map { _ in next() }
        #expect(add("ann") && add("bob"))
        for item in flood { done(item) }
        #expect(Set(names(flooders + 2)).isSuperset(of: ["ann0", "bob0"]))
    }

    @Test func oneOfAKeyIsUnderWay() {
        for key in ["a", "a", "b"] { #expect(add(key)) }
        let first = next()
        #expect(next()?.key == "b")
        #expect(next() == nil)
        done(first)
        #expect(next()?.key == "a")
        #expect(next() == nil && queue.count == 0 && queue.underWay == 2)
    }

    @Test func severalOfAKeyAreUnderWayWhereItIsNotSerial() {
        queue = Queue(Queue.Bounds(count: 100, countOfKey: 100), isSerial: false)
        for number in 0..<4 { #expect(add("a", number)) }
        for number in 0..<2 { #expect(add("b", number)) }
        #expect(add("e"))
        #expect(
            (0..<8).compactMap { _ in next().map { "\($0.key)\($0.number)" } } == [
                "a0", "b0", "e0", "a1", "b1", "a2", "a3",
            ])
        #expect(queue.underWay == 7)
    }

    @Test func aRequestThatComesBackIsNext() {
        for key in ["a", "a", "b", "c", "d"] { #expect(add(key, cost: 1)) }
        let (first, second) = (next(), next())
        again(second)
        again(first)
        #expect(queue.count == 5 && queue.cost == 5 && queue.underWay == 2)
        // Other elements of its key wait for it.
        #expect(next() === first)
        #expect(next() === second)
        #expect(next()?.key == "c")
        done(first)
        #expect(names() == ["d0", "a0"])
    }

    @Test func whatComesLaterIsBehindItsKeysOthers() {
        for number in 1...3 { #expect(add("a", number)) }
        #expect(add("b", 1))
        if let first = next(), let line = first.line { queue.later(first, line) }
        #expect(names() == ["b1", "a2", "a3", "a1"])
        #expect(queue.keyCount == 0)
    }

    @Test func keysApartHaveARingOfTheirOwn() {
        for key in ["a", "a", "b"] { #expect(add(key, 1)) }
        #expect(add("s", 1, isApart: true) && add("s", 2))
        let first = next()
        if let line = first?.line { queue.set(line, isApart: true) }
        done(first)
        #expect(queue.isAnyApart)
        #expect(names() == ["b1"])
        let apart = next(isApart: true)
        #expect(apart?.key == "s")
        again(apart)
        #expect(next() == nil)
        #expect(names(2, isApart: true) == ["s1", "a1"])
        if let item = next(isApart: true), let line = item.line {
            queue.set(line, isApart: false)
            queue.done(line)
        }
        #expect(!queue.isAnyApart && queue.keyCount == 0)
    }

    // MARK: Bounds

    @Test func whatWaitsIsBounded() {
        queue = Queue(Queue.Bounds(count: 10, countOfKey: 4), isSerial: true)
        for _ in 0..<4 { #expect(add("a")) }
        #expect(!add("a"))
        // Elements under way do not count.
        _ = next()
        #expect(add("a"))
        #expect(!add("a"))
        for key in ["b", "c", "d", "e", "f", "g"] { #expect(add(key)) }
        #expect(!add("h"))
        #expect(queue.count == 10 && queue.keyCount == 7)
    }

    /// A key with nothing waiting may use a reserve when others have filled the queue, up to a second bound.
    @Test func newcomersHaveAReserve() {
        queue = Queue(Queue.Bounds(count: 20, countOfKey: 5, newcomersShare: 4), isSerial: true)
        for number in 1...5 { #expect(add("a", number)) }
        #expect(!add("a", 6))
        for key in 1...15 { #expect(add("u\(key)")) }
        #expect(!add("u1"))
        #expect(queue.keyCount == 16)
        for key in 16...20 { #expect(add("u\(key)")) }
        #expect(!add("last"))
        #expect(queue.keyCount == 21)
        _ = next()
        #expect(add("last"))
        #expect(remove().count == 25)
        #expect(queue.count == 0 && queue.keyCount == 1)
    }

    @Test func theCostIsBounded() {
        queue = Queue(Queue.Bounds(count: 20, countOfKey: 5, cost: 10_000, newcomersShare: 4), isSerial: true)
        #expect(add("a", cost: 6_000))
        #expect(!add("a", cost: 5_000))
        #expect(add("a", cost: 3_000))
        #expect(!add("b", cost: 5_000))
        #expect(add("b", cost: 3_000))
        #expect(!add("c", cost: 1_000))
        let first = next()
        #expect(add("c", cost: 1_000))
        again(first)
        #expect(!add("d", cost: .max))
        #expect(remove().count == 4)
        #expect(queue.cost == 0 && queue.keyCount == 0)
    }

    // MARK: Removal

    @Test func entriesThatAreOverAreTakenOut() {
        for number in 1...3 { #expect(add("a", number)) }
        for number in 4...5 { #expect(add("b", number)) }
        #expect(add("c", 6))
        let (first, second) = (next(), next())
        again(second)
        #expect(remove { $0.number > 99 } == [])
        #expect(remove { $0.number != 5 && $0.number != 3 } == [2, 4, 6])
        #expect(queue.count == 2 && queue.keyCount == 2 && queue.underWay == 1)
        #expect(names() == ["b5"])
        done(first)
        #expect(names() == ["a3"])
        #expect(queue.keyCount == 0)
    }

    @Test func entriesInFlightStay() {
        for key in ["a", "a", "b"] { #expect(add(key)) }
        let first = next()
        #expect(remove().count == 2)
        #expect(queue.count == 0 && queue.keyCount == 1)
        #expect(add("a", 7))
        #expect(next() == nil)
        if let line = first?.line { #expect(queue.removeWaiting(of: line).map(\.number) == [7]) }
        done(first)
        #expect(next() == nil && queue.keyCount == 0)
        // A key whose elements were removed can come again.
        #expect(add("b", 1))
        #expect(names() == ["b1"])
    }

    // MARK: Histories

    /// In any history, a key's elements are done in order, each once, and one at a time.
    @Test func anyHistoryKeepsTheOrder() {
        queue = Queue(Queue.Bounds(count: 20, countOfKey: 5, newcomersShare: 4), isSerial: true)
        var random = SeededRandom()
        var over: [String: [Int]] = [:]
        var underWay: [Item] = []
        var last: [String: Int] = [:]
        func finish(_ item: Item) { over[item.key, default: []].append(item.number) }
        for _ in 0..<5_000 {
            switch Int.random(in: 0..<8, using: &random) {
            case 0...2:
                let key = "u\(Int.random(in: 0..<8, using: &random))"
                let number = last[key, default: 0] + 1
                if add(key, number, isApart: Bool.random(using: &random)) { last[key] = number }
            case 3, 4:
                if let item = next(isApart: Bool.random(using: &random)) {
                    #expect(!underWay.contains { $0.key == item.key }, "seed \(random.seed)")
                    underWay.append(item)
                }
            case 5:
                guard let index = underWay.indices.randomElement(using: &random) else { continue }
                again(underWay.remove(at: index))
            default:
                guard let index = underWay.indices.randomElement(using: &random) else { continue }
                let item = underWay.remove(at: index)
                let rest = Bool.random(using: &random) ? [] : item.line.map { queue.removeWaiting(of: $0) } ?? []
                if let line = item.line { queue.set(line, isApart: Bool.random(using: &random)) }
                done(item)
                for item in [item] + rest { finish(item) }
            }
        }
        for item in underWay {
            done(item)
            finish(item)
        }
        while let item = next() ?? next(isApart: true) {
            done(item)
            finish(item)
        }
        #expect(queue.keyCount == 0 && queue.count == 0 && queue.underWay == 0)
        for (key, numbers) in over { #expect(numbers == Array(1...(last[key] ?? 0)), "\(key), seed \(random.seed)") }
    }

    /// In any history, every element comes out once, and the bounds hold.
    @Test func anyHistoryLosesNothing() {
        queue = Queue(Queue.Bounds(count: 50, countOfKey: 20), isSerial: false)
        var random = SeededRandom()
        var waiting: Set<Int> = []
        var keys: [Int: String] = [:]
        var underWay: [Item] = []
        for number in 0..<20_000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let key = ["a", "a", "a", "b", "c"].randomElement(using: &random) ?? ""
                let back = queue.count - waiting.count
                let isFull = queue.count >= 50 || waiting.count { keys[$0] == key } >= 20
                #expect(add(key, number) == !isFull, "\(back) came back; seed \(random.seed)")
                if !isFull { waiting.insert(number) }
                keys[number] = key
            case 9 where Int.random(in: 0..<8, using: &random) == 0:
                for gone in remove(where: { $0.number < number - 60 }) { waiting.remove(gone) }
            case 4..<7:
                if let item = next() {
                    waiting.remove(item.number)
                    underWay.append(item)
                }
            default:
                guard let index = underWay.indices.randomElement(using: &random) else { continue }
                let item = underWay.remove(at: index)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: again(item)
                case 1:
                    if let line = item.line { queue.later(item, line) }
                    waiting.insert(item.number)
                default: done(item)
                }
            }
        }
        for item in underWay { done(item) }
        while let item = next() { done(item) }
        #expect(
            queue.keyCount == 0 && queue.count == 0 && queue.underWay == 0 && queue.cost == 0, "seed \(random.seed)")
    }
}
