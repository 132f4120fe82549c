import Logging
import Reactor
import TestSupport
import Testing

@testable import Store

@Suite struct FaultLogTests {
    @Test func eachFaultIsLoggedOnce() throws {
        let lines = KeptLines()
        let log = FaultLog(try EventLoop(), Logger(label: "test") { _ in lines })
        for _ in 0..<3 {
            for number in 0..<StoreLimits.faultsMax { log.tell("fault \(number)") }
        }
        #expect(lines.all.count == StoreLimits.faultsMax)
    }

    @Test func aNewFaultIsLoggedHoweverManyCameBefore() throws {
        let lines = KeptLines()
        let log = FaultLog(try EventLoop(), Logger(label: "test") { _ in lines })
        for number in 0...3 * StoreLimits.faultsMax { log.tell("fault \(number)") }
        #expect(lines.all.count == 3 * StoreLimits.faultsMax + 1)
    }
}
