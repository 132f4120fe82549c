import Bytes
import TestSupport
import Testing

/// Who has most of what all share, and who loses what for others.
@Suite(.timeLimit(.minutes(15))) struct SharesTests {
    /// Against a table that is looked through.
    @Test func theLargestIsAlwaysFirst() {
        var random = SeededRandom()
        let seed = random.seed
        var shares = Shares<Int, Void>()
        var model: [Int: Int] = [:]
        for _ in 0..<20_000 {
            let key = Int.random(in: 0..<40, using: &random)
            let has = model[key] ?? 0
            let change = Int.random(in: -has...6, using: &random)
            shares.add(change, to: key)
            model[key] = has + change > 0 ? has + change : nil
            let total = model.values.reduce(0, +)
            #expect(shares.count == model.count && shares.total == total, "seed \(seed)")
            #expect(shares[key] == model[key] ?? 0, "seed \(seed)")
            #expect(shares.excess(beyond: total) == nil, "seed \(seed)")
            let largest = shares.excess(beyond: total - 1)
            #expect(largest.flatMap { model[$0.key] } == model.values.max(), "seed \(seed)")
        }
        for key in model.keys { shares.add(-shares[key], to: key) }
        #expect(shares.count == 0 && shares.total == 0 && shares.excess(beyond: -1) == nil)
    }

    // MARK: The order

    /// At the bound all stay; one past it the oldest goes of who has most.
    @Test func theLargestHolderLosesItsOldest() {
        var order = SharedOrder<String, Int>(bound: 4)
        for number in 1...3 { order.append(number, of: "a") }
        order.append(4, of: "b")
        #expect(pops(&order) == nil && order.total == 4)
        order.append(5, of: "b")
        #expect(pops(&order) == 1)
        order.leave(of: "a")
        #expect(pops(&order) == nil && order.total == 4 && order.first == 2)
        order.append(6, of: "b")
        #expect(pops(&order) == 4, "its own, now")
    }

    /// However large it is, a key's last one stays; and who has no more than an even share loses nothing for that.
    @Test func theLastOneIsSpared() {
        var order = SharedOrder<String, Int>(bound: 100, spared: 1)
        order.append(1, of: "a", size: 500)
        #expect(pops(&order) == nil)
        for number in 2...3 { order.append(number, of: "b", size: 25) }
        #expect(pops(&order) == nil, "an even share of 50")
        order.append(4, of: "b", size: 1)
        #expect(pops(&order) == 2)
        order.leave(of: "b", size: 25)
        #expect(pops(&order) == nil)
        order.append(5, of: "a", size: 1)
        #expect(pops(&order) == 1)
    }

    /// What is held counts, and is nothing that could be lost.
    @Test func whatIsHeldIsNotLost() {
        var order = SharedOrder<String, Int>(bound: 4)
        order.hold(3, of: "a")
        order.append(1, of: "b")
        order.hold(1, of: "a")
        #expect(order.total == 5 && pops(&order) == nil, "b has less than its share")
        order.hold(-1, of: "a")
        for number in 2...4 { order.append(number, of: "b") }
        #expect(pops(&order) == 1)
        order.leave(of: "b")
        #expect(pops(&order) == 2)
        order.leave(of: "b")
        #expect(order.total == 5 && pops(&order) == nil, "b has its share")
        order.append(5, of: "a", size: 0)
        #expect(pops(&order) == 5)
        order.leave(of: "a")
        #expect(order.total == 4 && pops(&order) == nil && order.first == 3)
        #expect(takes(&order, of: "b") == 3)
        #expect(takes(&order, of: "b") == 4)
        #expect(takes(&order, of: "b") == nil && takes(&order, of: "c") == nil)
        order.hold(-2, of: "a")
        #expect(order.total == 2 && order.first == nil && order.slotCount == 0)
    }

    // The macros of Testing take values, which do not change.
    private func pops(_ order: inout SharedOrder<String, Int>) -> Int? { order.popExcess() }
    private func takes(_ order: inout SharedOrder<String, Int>, of key: String) -> Int? { order.popFirst(of: key) }

    /// Whatever comes and goes: against lists that are looked through.
    @Test(arguments: 0..<4) func anyHistoryIsThatOfTheModel(_ spared: Int) {
        var random = SeededRandom()
        let seed = random.seed
        let bound = 60
        var order = SharedOrder<Int, Int>(bound: bound, spared: spared)
        var live: [(key: Int, number: Int, size: Int)] = []
        func amount(_ key: Int) -> Int { live.reduce(0) { $0 + ($1.key == key ? $1.size : 0) } }
        func isLive(_ number: Int) -> Bool { live.contains { $0.number == number } }
        func leave(_ number: Int) {
            guard let index = live.firstIndex(where: { $0.number == number }) else { return }
            let gone = live.remove(at: index)
            order.leave(of: gone.key, size: gone.size)
        }
        for number in 0..<4_000 {
            // Some keys have many more than others, and there are times of few.
            let key = min(Int.random(in: 0..<6, using: &random), Int.random(in: 0..<6, using: &random))
            switch Int.random(in: 0..<(number % 1_000 < 500 ? 4 : 8), using: &random) {
            case 0...2:
                let size = Int.random(in: 1...9, using: &random)
                order.append(number, of: key, size: size)
                live.append((key, number, size))
                while let popped = order.popExcess() {
                    guard let gone = live.first(where: { $0.number == popped }) else { continue }
                    let keys = Set(live.map(\.key))
                    let able = keys.filter { key in live.count { $0.key == key } > spared }
                    #expect(amount(gone.key) == able.map(amount).max(), "seed \(seed)")
                    #expect(amount(gone.key) > bound / keys.count, "seed \(seed)")
                    #expect(live.first { $0.key == gone.key }?.number == popped, "seed \(seed)")
                    leave(popped)
                }
                let able = Set(live.map(\.key)).filter { key in live.count { $0.key == key } > spared }
                let largest = able.map(amount).max() ?? 0
                #expect(
                    order.total <= bound || largest <= bound / Set(live.map(\.key)).count, "seed \(seed)")
                order.sweep(of: key, keeping: isLive)
            case 3:
                while order.popFirst(if: { !isLive($0) }) != nil {}
                #expect(order.first == live.first?.number, "seed \(seed)")
                if let first = order.popFirst(if: { _ in true }) { leave(first) }
            default:
                if let gone = live.randomElement(using: &random) { leave(gone.number) }
            }
            #expect(order.total == live.reduce(0) { $0 + $1.size }, "seed \(seed)")
            #expect(order.slotCount <= 6 * (2 * bound + 65), "seed \(seed)")
        }
        for gone in live { leave(gone.number) }
        #expect(order.total == 0 && order.slotCount == 0 && order.first == nil, "seed \(seed)")
    }
}
