import Clock
import Testing

@testable import Postgres

@Suite struct OutageTests {
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 1).advanced(by: .seconds(seconds)) }

    @Test func theLongerTheOutageTheLongerThePause() {
        var outage = Outage()
        #expect(!outage.isOn && !outage.isLong(at: at(100)))
        #expect(outage.pause(atLeast: .milliseconds(500), at: at(100)) == .milliseconds(500))
        outage.begins(at: at(100))
        // More connections are lost in the same outage.
        outage.begins(at: at(101))
        #expect(outage.isOn)
        #expect(!outage.isLong(at: at(100)) && outage.isLong(at: at(101)))
        #expect(outage.pause(atLeast: .milliseconds(500), at: at(103)) == .seconds(3))
        #expect(outage.pause(atLeast: .milliseconds(500), at: at(200)) == .seconds(5))
        outage.ends()
        #expect(!outage.isOn && !outage.isLong(at: at(200)))
        outage.begins(at: at(300))
        #expect(!outage.isLong(at: at(300)))
    }
}
