import Sync
import Testing

@testable import Feed

@Suite struct WatchesTests {
    private func stream(_ number: Int) -> StreamID { StreamID(user: "u\(number)", topic: "t") }

    /// A hub has one for each stream of each user.
    @Test func aWatchStaysSmall() { #expect(MemoryLayout<Watch>.stride <= 24) }

    @Test func oneEpochHasOneNumber() {
        var watches = Watches(streamsMax: 1, streamsPerUserMax: 1)
        let number = watches.number(of: Epoch("a"))
        #expect(number != .unknown)
        #expect(watches.number(of: Epoch("a")) == number, "another copy of its text")
        #expect(watches.number(of: Epoch("b")) != number)
    }

    @Test func aWatchBeforeItsPositionIsInNoEpoch() {
        #expect(!Watch(stream(0), serial: 1).isIn(.unknown))
    }

    /// Numbers are used again: a watch in an epoch keeps it, however many come and go.
    @Test func epochsWithoutAWatchGiveUpTheirNumbers() throws {
        var watches = Watches(streamsMax: 1, streamsPerUserMax: 1)
        #expect(watches.begin(stream(0), serial: 1, isBack: false) == nil)
        let own = Epoch("own")
        let number = watches.number(of: own)
        watches[0].restart(at: 5, in: number)
        for other in 0..<1_000 {
            let epoch = watches.number(of: Epoch("\(other)"))
            #expect(epoch != .unknown)
            #expect(!watches[0].isIn(epoch))
        }
        #expect(watches.number(of: own) == number)
        #expect(watches[0].isIn(number))
    }

    /// At the bound all epochs are told apart. One past it, a further one counts as none of them.
    @Test func anEpochBeyondTheBoundDiffersFromAll() {
        var watches = Watches(streamsMax: 300, streamsPerUserMax: 1)
        for number in 0..<255 {
            #expect(watches.begin(stream(number), serial: 1, isBack: false) == nil)
            let epoch = watches.number(of: Epoch("\(number)"))
            watches[number].restart(at: 1, in: epoch)
        }
        for number in 0..<255 {
            let epoch = watches.number(of: Epoch("\(number)"))
            #expect(watches[number].isIn(epoch))
        }
        let further = watches.number(of: Epoch("further"))
        #expect(further == .unknown)
        #expect((0..<255).allSatisfy { !watches[$0].isIn(further) })
        watches[254].restart(at: 1, in: further)
        #expect(!watches[254].isIn(further), "it cannot be known whether that is the same one")
        #expect(watches.number(of: Epoch("yet another")) != .unknown, "a number is free again")
    }
}
