import TestSupport
import Testing

@testable import HubEngine

@Suite(.timeLimit(.minutes(15))) struct SubscriberListTests {
    /// In any history, the list agrees with two arrays. A copy keeps its content: fan-outs iterate over one.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func agreesWithTwoArrays(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var list = SubscriberList()
        var live: [SessionID] = []
        var behind: [SessionID] = []
        // One expectation for all: each is slow, and other tests run beside this one.
        var agrees = true
        for step in 1...400 as ClosedRange<UInt32> {
            let id = SessionID(slot: step, generation: 1)
            let (copy, before, behindBefore) = (list, live, behind)
            // Few at a time, so that it often has one or none.
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2:
                list.append(id)
                live.append(id)
            case 3...6 where !live.isEmpty:
                let index = Int.random(in: live.indices, using: &random)
                live.swapAt(index, live.count - 1)
                live.removeLast()
                agrees = agrees && list.remove(at: index) == (index < live.count ? live[index] : nil)
            case 7:
                list.appendBehind(id)
                behind.append(id)
            case 8:
                if let gone = behind.randomElement(using: &random) {
                    list.removeBehind(gone)
                    behind.removeAll { $0 == gone }
                }
            default:
                agrees = agrees && Array(list.takeBehind()) == behind
                behind = []
            }
            agrees = agrees && Array(list) == live && list.count == live.count && Array(list.behind) == behind
            agrees = agrees && Array(copy) == before && Array(copy.behind) == behindBefore
            // A single subscriber needs no array.
            if behind.isEmpty, live.count <= 1 { agrees = agrees && list.many.isEmpty && list.only == live.first }
        }
        #expect(agrees, "seed \(seed)")
        #expect(list.remove(at: 1_000) == nil)
    }

    /// Thousands of subscribers that join one channel do not each copy the list.
    @Test func growsWhereItLies() {
        var list = SubscriberList()
        var moves = 0
        var address: UnsafeRawPointer?
        for slot in 0..<4_096 as Range<UInt32> {
            list.append(SessionID(slot: slot, generation: 1))
            let now = list.many.withUnsafeBytes { $0.baseAddress }
            if now != address { moves += 1 }
            address = now
        }
        #expect(moves < 30)
    }
}
