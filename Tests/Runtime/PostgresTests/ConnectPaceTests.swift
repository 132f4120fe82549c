import Clock
import Synchronization
import Testing

@testable import Postgres

@Suite struct ConnectPaceTests {
    private let now = Instant(nanoseconds: 1_000_000_000)

    @Test func withoutAPaceNobodyWaits() {
        let pace = ConnectPace()
        #expect((0..<3).map { _ in pace.wait(at: now) } == [.zero, .zero, .zero])
    }

    @Test func attemptsHaveTheirTimes() {
        let pace = ConnectPace()
        pace.set(.milliseconds(10))
        #expect(pace.wait(at: now) == .zero)
        #expect(pace.wait(at: now) == .milliseconds(10))
        #expect(pace.wait(at: now.advanced(by: .milliseconds(4))) == .milliseconds(16))
        // Those were at 0, 10 and 20 ms.
        #expect(pace.wait(at: now.advanced(by: .milliseconds(45))) == .zero)
        pace.set(.zero)
        #expect(pace.wait(at: now) == .zero)
    }

    @Test func attemptsOfSeveralThreadsHaveTimesOfTheirOwn() async {
        let pace = ConnectPace()
        pace.set(.milliseconds(1))
        let waits = await withTaskGroup(of: [Duration].self) { group in
            for _ in 0..<4 { group.addTask { (0..<1_000).map { _ in pace.wait(at: now) } } }
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(waits) == Set((0..<4_000).map { .milliseconds($0) }))
    }
}
