import TestSupport
import Testing

@testable import API

/// The app that has most, against a table that is looked through.
@Suite(.timeLimit(.minutes(15))) struct LargestFirstTests {
    @Test func theLargestIsAlwaysFirst() {
        var random = SeededRandom()
        let seed = random.seed
        var largest = LargestFirst()
        var model: [Int: Int] = [:]
        for _ in 0..<20_000 {
            let app = Int.random(in: 0..<40, using: &random)
            let has = model[app] ?? 0
            let change = Int.random(in: -has...6, using: &random)
            largest.add(change, to: app)
            model[app] = has + change > 0 ? has + change : nil
            #expect(largest.count == model.count, "seed \(seed)")
            #expect(largest.first.flatMap { model[$0] } == model.values.max(), "seed \(seed)")
        }
        #expect(Set((0..<largest.count).map { largest.app(at: $0) }) == Set(model.keys), "seed \(seed)")
    }
}
