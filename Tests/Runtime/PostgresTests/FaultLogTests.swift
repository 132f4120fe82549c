import Logging
import Reactor
import TestSupport
import Testing

@testable import Postgres

@Suite struct FaultLogTests {
    @Test func eachFaultIsLoggedOnce() throws {
        let lines = KeptLines()
        let log = FaultLog(try EventLoop(), Logger(label: "test") { _ in lines }, of: "test")
        for _ in 0..<3 {
            for number in 0..<PostgresLimits.faultsMax { log.tell("fault \(number)") }
        }
        #expect(lines.all.count == PostgresLimits.faultsMax)
    }

    @Test func aNewFaultIsLoggedHoweverManyCameBefore() throws {
        let lines = KeptLines()
        let log = FaultLog(try EventLoop(), Logger(label: "test") { _ in lines }, of: "test")
        for number in 0...3 * PostgresLimits.faultsMax { log.tell("fault \(number)") }
        #expect(lines.all.count == 3 * PostgresLimits.faultsMax + 1)
    }
}
