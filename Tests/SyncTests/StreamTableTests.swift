import TestSupport
import Testing

@testable import Sync

@Suite(.timeLimit(.minutes(15))) struct StreamTableTests {
    /// Whatever is kept, changed and forgotten, the table says what a dictionary says.
    @Test(arguments: 0..<5 as Range<UInt64>) func agreesWithADictionary(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = StreamTable<Int>()
        var model: [StreamID: Int] = [:]
        let streams = (0..<300).map { StreamID(user: "u\($0 / 2)", topic: $0 % 2 == 0 ? "a" : "b") }
        // One expectation for all: they are slow to make, and a busy machine runs other tests beside these.
        var agrees = true
        // More are kept than forgotten at first, then the other way round: it grows, and empties.
        for step in 0..<6_000 {
            let stream = streams[Int.random(in: streams.indices, using: &random)]
            let keeps = Int.random(in: 0..<10, using: &random) < (step < 3_000 ? 7 : 2)
            switch (keeps, table.place(of: stream)) {
            case (true, let place?):
                table[place] += 1
                model[stream]? += 1
            case (true, nil):
                agrees = agrees && table[table.insert(step, for: stream)] == step
                model[stream] = step
            case (false, _):
                let value = table.remove(stream)
                agrees = agrees && value == model.removeValue(forKey: stream)
            }
            agrees = agrees && table.count == model.count && table[stream] == model[stream]
            if step % 500 == 0 { agrees = agrees && streams.allSatisfy { table[$0] == model[$0] } }
        }
        #expect(agrees, "seed \(seed)")
        #expect(streams.allSatisfy { table[$0] == model[$0] }, "seed \(seed)")
        #expect(table.entries.allSatisfy { model[$0.stream] == $0.value }, "seed \(seed)")
        for stream in streams { table[stream] = nil }
        #expect(table.isEmpty && streams.allSatisfy { table[$0] == nil })
    }

    /// A loop of 64 has the streams whose codes agree in their last six bits: they are found as quickly as any.
    @Test func streamsOfOneLoopAreSpread() {
        var table = StreamTable<Int>()
        var number = 0
        // Three quarters of 4,096 slots.
        while table.count < 3_072 {
            let stream = StreamID(user: "u\(number)", topic: "a")
            number += 1
            if stream.code % 64 == 5 { _ = table.insert(number, for: stream) }
        }
        var steps = 0
        for place in table.entries.indices {
            let home = table.home(of: table.stream(at: place))
            steps += (table.slot(of: place) - home + table.index.count) % table.index.count
        }
        // 1.5 each is what is expected of linear probing at this load (Knuth 6.4), and 24 of six bits that are the same.
        #expect(steps < 4 * table.count)
    }

    @Test func isEmptyAtFirst() {
        var table = StreamTable<String>()
        let stream = StreamID(user: "u", topic: "a")
        #expect(table.place(of: stream) == nil)
        #expect(table.remove(stream) == nil)
        table[stream] = "x"
        // Another reference to the same text.
        let other = StreamID(user: "u", topic: "a")
        #expect(table[other] == "x")
        table[other] = "y"
        #expect(table.count == 1)
        #expect(table.stream(at: 0) == stream)
    }
}
