import TestDatabase
import TestSupport
import Testing

@testable import CarillonClient

/// A device that dies between any two writes: what it acted is done exactly once, and it ends where the hub is.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) struct DeathTests {
    private struct Death: Error {}

    private static let writes = 14

    @Test func everyWriteMayBeTheLast() async throws {
        let stage = try await HubStage(doses: Self.writes)
        var deaths = 0
        for number in 1...Self.writes {
            let dose = "d\(number)"
            let phone = try stage.device("phone-\(number)")
            let last = await phone.die(beforeWrite: number) { throw Death() }
            try await phone.start()
            var keys: [String] = []
            let taken = try? await phone.act(.markTaken(dose))
            let noted = try? await phone.act(.addNote(dose, "before write \(number)"))
            keys = [taken, noted].compactMap { $0?.key }
            // Until it is dead, or has nothing more to do.
            let patience = ContinuousClock.now + .seconds(30)
            while await !phone.hasReached(last), phone.queueLength.current != 0 || phone.lastSyncAt.current == nil {
                if ContinuousClock.now > patience {
                    throw NeverCame(what: "write \(number), or a sync", state: await phone.standing)
                }
                try await Task.sleep(for: .milliseconds(2))
            }
            if await phone.hasReached(last) { deaths += 1 }
            await phone.close()

            let again = try stage.device("phone-\(number)")
            let left = again.queueLength.current ?? 0
            #expect(left <= keys.count)
            try await again.start()
            try await again.drained()
            for key in keys { #expect(try stage.count(key) == 1, "write \(number)") }
            try await again.sees(dose, taken == nil ? .scheduled : .taken)
            if taken != nil { #expect(try stage.status(dose) == "taken") }
            await again.close()
        }
        #expect(deaths >= 10)
        await stage.end()
    }
}

extension CarillonClient {
    /// All writes fail from the given one on, counted from now; returns its number.
    fileprivate func die(beforeWrite number: Int, _ death: @escaping () throws -> Void) -> Int {
        let last = store.writes + number
        store.failure = { if $0 >= last { try death() } }
        return last
    }

    fileprivate func hasReached(_ write: Int) -> Bool { store.writes >= write }
}
