import Clock
import Reactor
import Testing

@testable import loadtest

@Suite struct ActionLoadTests {
    private let names = Names(run: "t", topics: ["adherence"])

    @Test func everySecondStepUndoesTheOneBefore() {
        let steps = (1...6).map { MannerStep($0, rows: 2) }
        #expect(steps.map(\.row) == [0, 0, 1, 1, 0, 0])
        #expect(steps.map(\.isUndo) == [false, true, false, true, false, true])
    }

    @Test func aRowsRevisionSaysWhatItIsDueFor() {
        // Revision 1 is the row as it was inserted.
        #expect(!MannerStep(1, rows: 1).isUndo)
        #expect(MannerStep(2, rows: 1).isUndo)
    }

    @Test func keysAreReadBack() {
        let key = Array(names.key(12, 7).utf8)
        let action = key.withUnsafeBytes { names.action(of: $0) }
        #expect(action?.owner == 12)
        #expect(action?.number == 7)
    }

    @Test(arguments: ["", "load-t-", "load-t-1", "load-t-1-", "load-t--7", "load-u-1-7", "load-t-1-x"])
    func otherKeysAreNobodys(_ key: String) {
        #expect(Array(key.utf8).withUnsafeBytes { names.action(of: $0) } == nil)
    }

    @Test func readsAnAnswer() throws {
        let text =
            #"{"event":"sync:result","data":"{\"key\":\"load-t-3-41\",\"status\":\"retry\",\"code\":\"busy\"}"}"#
        let message = try Array(text.utf8).withUnsafeBytes { try HubMessage($0, names: names) }
        guard case .result(let result) = message else {
            Issue.record("no answer")
            return
        }
        #expect(result.action?.device == 3)
        #expect(result.action?.number == 41)
        #expect(result.status == "retry" && result.code == "busy")
    }

    @Test func readsTheLogOfPgbench() {
        // client, transaction, µs, script, end, and with --rate how late it began.
        let log = "0 199 2241 0 1175850568 995598\n1 3 70 0 1175850569 608 12\n\n"
        #expect(PgBench.latencies(log: log) == [2_241_000, 70_000])
    }

    @Test func aScheduleHasItsRateInTheMean() {
        let start = Instant(nanoseconds: 1_000)
        var schedule = Schedule(rate: 1000, start: start, seed: 42)
        var twin = Schedule(rate: 1000, start: start, seed: 42)
        for _ in 0..<10_000 {
            let before = schedule.next
            schedule.advance()
            twin.advance()
            #expect(schedule.next >= before)
        }
        #expect(schedule.next == twin.next)
        let seconds = Double(schedule.next.nanoseconds) / 1e9
        // Ten standard deviations of ten seconds.
        #expect(abs(seconds - 10) < 1)
    }
}
