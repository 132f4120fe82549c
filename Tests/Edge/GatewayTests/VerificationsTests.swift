import HubEngine
import Pusher
import TestSupport
import Testing

@testable import Gateway

@Suite(.timeLimit(.minutes(15))) struct VerificationsTests {
    private func session(_ slot: UInt32) -> SessionID { SessionID(slot: slot, generation: 1) }

    private func user(_ id: String) -> UserKey { UserKey(id, of: 0) }

    @Test func aTokenBegunBeforeTheTerminationEndsItsConnection() {
        var verifications = Verifications()
        verifications.terminate(user("a"))
        verifications.begin(session(0))
        verifications.terminate(user("a"))
        verifications.begin(session(1))
        verifications.begin(session(2))
        #expect(verifications.end(session(1), as: user("a")) == nil)
        #expect(verifications.end(session(0), as: user("a")) == .terminated)
        // Reported once; nothing is kept for ended sessions.
        #expect(verifications.end(session(0), as: user("a")) == nil)
        #expect(verifications.end(session(2), as: nil) == nil)
        #expect(verifications.terminatedCount == 0)
    }

    @Test func othersAreLetIn() {
        var verifications = Verifications()
        for slot in 0..<3 as Range<UInt32> { verifications.begin(session(slot)) }
        verifications.terminate(user("a"))
        verifications.terminate(UserKey("b", of: 1))
        #expect(verifications.end(session(0), as: user("b")) == nil)
        #expect(verifications.end(session(1), as: nil) == nil)
        #expect(verifications.end(session(2), as: user("a")) == .terminated)
    }

    @Test func atTheBoundUsersAreToldApartAndBeyondItNoneIsLetIn() {
        for count in [Verifications.terminatedMax, Verifications.terminatedMax + 1] {
            var verifications = Verifications()
            for slot in 0..<3 as Range<UInt32> { verifications.begin(session(slot)) }
            for number in 0..<count { verifications.terminate(user("u\(number)")) }
            // A user who is already recorded takes no further room.
            verifications.terminate(user("u0"))
            #expect(verifications.terminatedCount <= Verifications.terminatedMax)
            verifications.begin(session(3))
            let isBeyond = count > Verifications.terminatedMax
            #expect(verifications.end(session(0), as: user("other")) == (isBeyond ? .overCapacity : nil))
            #expect(verifications.end(session(1), as: user("u0")) == .terminated)
            #expect(verifications.end(session(3), as: user("u1")) == nil)
            #expect(verifications.end(session(2), as: user("u1")) == (isBeyond ? .overCapacity : .terminated))
        }
    }

    @Test func placesAreFreeAgainOnceWhatWasUnderWayIsOver() {
        var verifications = Verifications()
        for round in 0..<5 as Range<UInt32> {
            verifications.begin(session(round))
            if round > 0 { _ = verifications.end(session(round - 1), as: nil) }
            for number in 0..<Verifications.terminatedMax { verifications.terminate(user("\(round) \(number)")) }
        }
        // Some verification is always in progress; the terminations of earlier rounds no longer matter.
        #expect(verifications.end(session(4), as: user("other")) == nil)
    }

    /// Compared with a model that forgets nothing.
    @Test(arguments: 0..<50 as Range<UInt64>) func nobodySlipsThrough(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var verifications = Verifications()
        var step = 0
        var begun: [UInt32: Int] = [:]
        var terminated: [String: Int] = [:]
        for slot in 0..<400 as Range<UInt32> {
            step += 1
            verifications.begin(session(slot))
            begun[slot] = step
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                step += 1
                let id = "u\(Int.random(in: 0..<6, using: &random))"
                if Bool.random(using: &random) {
                    verifications.terminate(user(id))
                    terminated[id] = step
                } else if let (slot, since) = begun.randomElement(using: &random) {
                    begun[slot] = nil
                    let isLate = terminated[id].map { $0 > since } ?? false
                    #expect(
                        verifications.end(session(slot), as: user(id)) == (isLate ? .terminated : nil), "seed \(seed)")
                }
            }
        }
    }
}

@Suite(.timeLimit(.minutes(15))) struct BoundedCountTests {
    @Test func soManyAreLetInAndNoMore() {
        let connections = BoundedCount()
        for number in 1...3 { #expect(connections.enter(most: 3) == number) }
        #expect(connections.enter(most: 3) == nil)
        #expect(connections.count == 3)
        #expect(connections.leave() == 2)
        #expect(connections.enter(most: 3) == 3)
        #expect(connections.enter(most: 3) == nil)
        // A removed or lowered bound closes nobody.
        #expect(connections.enter(most: nil) == 4)
        #expect(connections.enter(most: 1) == nil)
        #expect(connections.count == 4)
        #expect(BoundedCount().enter(most: 0) == nil)
    }

    @Test func threadsTogetherAreNoMoreThanTheBound() async {
        let count = BoundedCount()
        let entered = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 { group.addTask { (0..<1_000).count { _ in count.enter(most: 2_500) != nil } } }
            return await group.reduce(0, +)
        }
        #expect(entered == 2_500 && count.count == 2_500)
    }
}
