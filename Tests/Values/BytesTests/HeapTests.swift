import Bytes
import TestSupport
import Testing

@Suite struct HeapTests {
    private final class Entry: HeapEntry {
        var number: Int
        var index = -1

        init(_ number: Int) { self.number = number }

        func precedes(_ other: Entry) -> Bool { number < other.number }

        func moved(to index: Int) { self.index = index }
    }

    /// Compared with a list; and every entry knows its index.
    @Test(arguments: 0..<20 as Range<UInt64>) func agreesWithAList(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var heap = Heap<Entry>()
        var model: [Entry] = []
        for _ in 0..<2_000 {
            switch Int.random(in: 0..<9, using: &random) {
            case 0, 1, 2, 3:
                let entry = Entry(Int.random(in: 0..<50, using: &random))
                heap.insert(entry)
                model.append(entry)
            case 4:
                let popped = heap.popFirst()
                #expect(popped?.number == model.map(\.number).min(), "seed \(seed)")
                model.removeAll { $0 === popped }
            case 5:
                guard let entry = model.randomElement(using: &random) else { continue }
                let removed = heap.remove(at: entry.index)
                #expect(removed === entry, "seed \(seed)")
                model.removeAll { $0 === entry }
            case 6, 7:
                guard let entry = model.randomElement(using: &random) else { continue }
                entry.number = Int.random(in: 0..<50, using: &random)
                heap.settle(at: entry.index)
            default:
                guard Int.random(in: 0..<20, using: &random) == 0 else { continue }
                heap.removeAll { $0.number % 3 == 0 }
                model.removeAll { $0.number % 3 == 0 }
            }
            #expect(heap.count == model.count && heap.isEmpty == model.isEmpty)
            #expect(heap.first?.number == model.map(\.number).min(), "seed \(seed)")
            #expect(model.allSatisfy { heap[$0.index] === $0 }, "seed \(seed)")
        }
        let numbers = model.map(\.number).sorted()
        var popped: [Int] = []
        while let next = heap.popFirst() { popped.append(next.number) }
        #expect(popped == numbers, "seed \(seed)")
    }
}
