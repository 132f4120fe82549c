import Clock
import Foundation
import Histogram
import Reactor
import Synchronization

/// A client that nothing happens to: its user's rows are changed again and again, and its events are timed on a thread of
/// its own, whatever the others' thread does.
final class Witness: Sendable {
    private let times = Mutex(Histogram<UInt64>(numberOfSignificantValueDigits: .three))
    private let isEnding = Atomic<Bool>(false)
    private let isRunning = Atomic<Bool>(true)
    private let complaint = Mutex<String?>(nil)

    /// Subscribes, and begins. `drive` is the thread's until `end` returns.
    init(_ drive: Drive, rate: Double) throws {
        try drive.open()
        nonisolated(unsafe) let drive = drive
        Thread.detachNewThread { [self] in
            watch(drive, rate)
            isRunning.store(false, ordering: .releasing)
        }
    }

    static let plan = Drive.Plan(
        users: 1, devicesPerUser: 1, rowsPerUser: 64, kind: .reminders, topics: [RowKind.reminders.topic], writers: 1,
        inFlight: 256, rowsPerTransaction: 1)

    /// Nanoseconds from sending COMMIT to the event, since the last call.
    func take() -> Histogram<UInt64> {
        times.withLock { times in
            let taken = times
            times.reset()
            return taken
        }
    }

    /// Stops, and waits for what is in flight.
    ///
    /// - Throws: `LoadFailure` where an event was lost or came twice.
    func end() throws(LoadFailure) {
        isEnding.store(true, ordering: .relaxed)
        while isRunning.load(ordering: .acquiring) { usleep(10_000) }
        if let complaint = complaint.withLock({ $0 }) { throw LoadFailure("the untouched client: \(complaint)") }
    }

    private func watch(_ drive: Drive, _ rate: Double) {
        drive.script.arrived = { [unowned drive] arrival, device in
            let now = drive.swarm.receivedAt
            drive.ledger.received(arrival, by: device.recipient, at: now)
            guard let start = drive.book.commitTime(arrival.row, arrival.revision) else { return }
            self.times.withLock { _ = $0.record(max(1, now.nanoseconds &- start.nanoseconds)) }
        }
        drive.writers.start(Writers.Pace(rate: rate))
        while !isEnding.load(ordering: .relaxed), drive.swarm.failureCount == 0, drive.writers.failure == nil {
            drive.swarm.loop.tick(waitingAtMost: .milliseconds(50))
        }
        drive.writers.stop()
        while drive.writers.areRunning { drive.swarm.loop.tick(waitingAtMost: .milliseconds(10)) }
        do {
            let faults = try drive.close()
            let failure = drive.swarm.firstFailure ?? drive.writers.failure
            complaint.withLock { $0 = failure ?? (faults.isZero ? nil : "events went astray: \(faults)") }
        } catch {
            complaint.withLock { $0 = "\(error)" }
        }
    }
}
