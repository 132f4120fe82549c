import TestSupport
import Testing

@testable import Bytes

@Suite(.timeLimit(.minutes(15))) struct KeyedTableTests {
    private struct Name: TableKey, Hashable {
        let number: Int
        let code: UInt32

        /// - Parameter bits: of the codes. With few, many names share one.
        init(_ number: Int, bits: Int = 32) {
            self.number = number
            code = UInt32(truncatingIfNeeded: KeyedHash.mix(UInt64(number), 7)) & UInt32.max >> UInt32(32 - bits)
        }
    }

    private struct Entry: TableEntry {
        let key: Name
        var value: Int
    }

    /// In any history, the table agrees with a dictionary, also when names share a code.
    @Test(arguments: 0..<5 as Range<UInt64>) func agreesWithADictionary(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = KeyedTable<Entry>()
        var model: [Name: Int] = [:]
        let names = (0..<300).map { Name($0, bits: seed.isMultiple(of: 2) ? 32 : 7) }
        // One expectation for all: each is slow, and other tests run beside this one.
        var agrees = true
        // At first more are inserted, then more are removed: the table grows and empties.
        for step in 0..<6_000 {
            let name = names[Int.random(in: names.indices, using: &random)]
            let keeps = Int.random(in: 0..<10, using: &random) < (step < 3_000 ? 7 : 2)
            switch (keeps, table.index(of: name)) {
            case (true, let index?):
                table[index].value += 1
                model[name]? += 1
            case (true, nil):
                agrees = agrees && table[table.insert(Entry(key: name, value: step))].value == step
                model[name] = step
            case (false, _):
                let entry = table.remove(name)
                agrees = agrees && entry?.value == model.removeValue(forKey: name)
            }
            agrees = agrees && table.count == model.count && table[name]?.value == model[name]
            if step % 500 == 0 { agrees = agrees && names.allSatisfy { table[$0]?.value == model[$0] } }
        }
        #expect(agrees, "seed \(seed)")
        #expect(names.allSatisfy { table[$0]?.value == model[$0] }, "seed \(seed)")
        #expect(table.entries.allSatisfy { model[$0.key] == $0.value }, "seed \(seed)")
        for name in names { table.remove(name) }
        #expect(table.isEmpty && names.allSatisfy { table.index(of: $0) == nil })
    }

    /// One of 64 loops has the streams and users whose codes share the first six bits. They are found as quickly as others;
    /// so are codes that share the last six.
    @Test(arguments: [0, 26] as [UInt32]) func keysOfOneLoopAreSpread(_ shift: UInt32) {
        var table = KeyedTable<Entry>()
        var number = 0
        // Three quarters of 4,096 slots.
        while table.count < 3_072 {
            let name = Name(number)
            number += 1
            if name.code >> shift & 63 == 5 { _ = table.insert(Entry(key: name, value: number)) }
        }
        var steps = 0
        for index in table.entries.indices {
            let first = table.firstSlot(of: table[index].key)
            steps += (table.slot(of: index) - first + table.slots.count) % table.slots.count
        }
        // Linear probing at this load needs 1.5 steps each (Knuth 6.4); six equal bits without mixing would need 24.
        #expect(steps < 4 * table.count)
    }

    @Test func isEmptyAtFirst() {
        var table = KeyedTable<Entry>()
        #expect(table.index(of: Name(1)) == nil)
        #expect(table.remove(Name(1))?.value == nil)
        #expect(table.insert(Entry(key: Name(1), value: 5)) == 0)
        #expect(table[Name(1)]?.value == 5)
        #expect(table.count == 1)
    }
}
