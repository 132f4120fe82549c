import Clock
import Histogram
import Reactor
import Testing

@testable import loadtest

/// One user with two devices and two rows: what the ledger makes of what they get.
@Suite struct LedgerTests {
    private let book = CommitBook(rows: 2, inFlight: 8)
    private let devices = [Recipient(0, user: 0, topics: 1), Recipient(1, user: 0, topics: 1)]
    private let ledger: Ledger

    init() {
        let population = Population(
            names: Names(run: "t", topics: ["reminders"]), kind: .reminders, users: 1, rowsPerUser: 2)
        ledger = Ledger(population, devicesPerUser: 2, book: book, window: Window(size: 8))
        for device in devices { device.offsets[0] = 10 }
    }

    private func receive(
        _ device: Int, _ offset: Int64, row: Int = 0, revision: Int64, user: Int = 0, checksum: UInt64 = 7
    ) {
        let arrival = Arrival(
            user: user, topic: 0, offset: offset, row: row, revision: revision, checksum: checksum)
        ledger.received(arrival, by: devices[device], at: Instant(nanoseconds: 2_000))
    }

    private func commit(_ row: Int = 0) {
        book.committing(row, at: Instant(nanoseconds: 1_000))
    }

    @Test func completesWhenAllDevicesHaveIt() {
        commit()
        receive(0, 11, revision: 2)
        #expect(ledger.completed == 0)
        receive(1, 11, revision: 2)
        #expect(ledger.completed == 1)
        #expect(ledger.deliveries == 2)
        #expect(ledger.latencies.maxRecorded == 1_000)
        #expect(ledger.faults.isZero)
    }

    @Test func countsAGapAsLostAndALateEventAsOutOfOrder() {
        commit()
        commit()
        receive(0, 12, revision: 3)
        #expect(ledger.faults.lost == 1)
        receive(0, 11, revision: 2)
        #expect(ledger.faults.lost == 0)
        #expect(ledger.faults.outOfOrder == 1)
    }

    @Test func countsARepeatedEvent() {
        commit()
        receive(0, 11, revision: 2)
        receive(0, 11, revision: 2)
        #expect(ledger.faults.duplicate == 1)
        #expect(ledger.faults.lost == 0)
    }

    @Test func countsAnotherUsersEvent() {
        receive(0, 11, revision: 2, user: 1)
        #expect(ledger.faults.foreign == 1)
    }

    @Test func countsDifferentBytesUnderOneNumber() {
        commit()
        receive(0, 11, revision: 2, checksum: 7)
        receive(1, 11, revision: 2, checksum: 8)
        #expect(ledger.faults.different == 1)
    }

    @Test func countsARevisionThatWasNotCommitted() {
        commit()
        receive(0, 11, revision: 3)
        #expect(ledger.faults.revision > 0)
    }

    @Test func holdsTheEndAgainstTheDatabase() {
        commit()
        receive(0, 11, revision: 2)
        ledger.close(devices, positions: [(user: 0, topic: 0, top: 11)], revisions: [0: 2, 1: 1])
        #expect(ledger.faults.lost == 1)
        #expect(ledger.faults.revision == 0)
    }
}
