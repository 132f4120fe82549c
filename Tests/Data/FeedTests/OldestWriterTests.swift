import Clock
import Reactor
import Testing

@testable import Feed

@Suite struct OldestWriterTests {
    @Test func isKnownFromItsFirstSnapshotOn() {
        var writer = OldestWriter()
        func at(_ second: Int) -> Instant { Instant(nanoseconds: 1 << 40).advanced(by: .seconds(second)) }
        writer.saw("100:100:", at: at(0))
        #expect(writer.since == nil, "nobody writes")
        writer.saw("100:103:100,102", at: at(1))
        #expect(writer.since == at(1))
        writer.saw("100:999:100,500", at: at(5))
        #expect(writer.since == at(1), "others come and go")
        writer.saw("500:999:500", at: at(6))
        #expect(writer.since == at(6), "the next one is the oldest")
        writer.saw("1000:1000:", at: at(7))
        #expect(writer.since == nil)
        // After a failover the same number may come again.
        writer.saw("500:501:500", at: at(8))
        #expect(writer.since == at(8))
        writer.gone()
        #expect(writer.since == nil)
        writer.saw("500:501:500", at: at(9))
        #expect(writer.since == at(9), "meanwhile it was not watched")
    }

    @Test(arguments: ["", ":", "1", "1:", "a:2:", "2:1:", "18446744073709551616:2:", "1:-2:"])
    func whatIsNoSnapshotShowsNobody(_ text: String) {
        var writer = OldestWriter()
        writer.saw("1:2:1", at: Instant(nanoseconds: 1))
        writer.saw(text, at: Instant(nanoseconds: 2))
        #expect(writer.since == nil)
    }
}
