import Clock
import Histogram
import Reactor

/// Judges every delivery. Each device must get each event of its user's streams once and in order, with the same bytes as
/// the user's other devices, with no gap in a row's revisions, and no event of another user.
final class Ledger {
    /// Faults; all zero in a good run.
    struct Faults: Codable {
        /// Events that a device never got.
        var lost = 0
        /// Events that a device got twice.
        var duplicate = 0
        /// Events that arrived after a later one.
        var outOfOrder = 0
        var foreign = 0
        /// Events whose bytes differ between devices of one user.
        var different = 0
        /// Revisions of a row that arrived in another order than committed, or were never committed.
        var revision = 0

        var isZero: Bool { lost + duplicate + outOfOrder + foreign + different + revision == 0 }
    }

    private(set) var faults = Faults()
    private(set) var deliveries = 0
    /// Changes that have reached all devices of their user.
    private(set) var completed = 0
    /// Nanoseconds from sending COMMIT to the read that brought the event.
    private(set) var latencies = Histogram<UInt64>(numberOfSignificantValueDigits: .three)

    private let population: Population
    private let devicesPerUser: Int
    private let book: CommitBook
    private let window: Window
    private var streams: ContiguousArray<StreamRecord>
    private var rows: ContiguousArray<RowRecord>
    private var gaps: Set<Gap> = []

    init(_ population: Population, devicesPerUser: Int, book: CommitBook, window: Window) {
        self.population = population
        self.devicesPerUser = devicesPerUser
        self.book = book
        self.window = window
        streams = ContiguousArray(
            repeating: StreamRecord(), count: population.users * population.names.topics.count)
        rows = ContiguousArray(repeating: RowRecord(), count: population.rows)
    }

    func received(_ arrival: Arrival, by device: Recipient, at now: Instant) {
        deliveries += 1
        guard arrival.user == device.user else {
            faults.foreign += 1
            return
        }
        let last = device.offsets[arrival.topic]
        if arrival.offset == last + 1 {
            device.offsets[arrival.topic] = arrival.offset
        } else {
            guard misplaced(arrival, last, device) else { return }
        }
        compare(arrival)
        guard arrival.row >= 0 else { return }
        guard arrival.row < population.rows, let start = book.commitTime(arrival.row, arrival.revision) else {
            faults.revision += 1
            return
        }
        latencies.record(max(1, now.nanoseconds &- start.nanoseconds))
        rows[arrival.row].receipts += 1
        if rows[arrival.row].receipts % devicesPerUser == 0 {
            completed += 1
            window.release()
        }
    }

    /// Resets times and counts for a new measurement; keeps what was seen.
    func restart() {
        deliveries = 0
        latencies.reset()
    }

    /// After the run: compares the devices with what the database says was committed.
    func close(
        _ devices: some Sequence<Recipient>, positions: [(user: Int, topic: Int, top: Int64)], revisions: [Int: Int64]
    ) {
        var tops = [Int64](repeating: 0, count: streams.count)
        for position in positions where position.user < population.users {
            tops[index(position.user, position.topic)] = position.top
        }
        for device in devices {
            for topic in device.offsets.indices where device.offsets[topic] >= 0 {
                faults.lost += Int(max(0, tops[index(device.user, topic)] - device.offsets[topic]))
            }
        }
        for row in rows.indices where revisions[row] != rows[row].revision { faults.revision += 1 }
    }

    /// Whether every device stands at these positions.
    func isComplete(_ devices: some Sequence<Recipient>, positions: [(user: Int, topic: Int, top: Int64)]) -> Bool {
        var tops = [Int64](repeating: 0, count: streams.count)
        for position in positions where position.user < population.users {
            tops[index(position.user, position.topic)] = position.top
        }
        return devices.allSatisfy { device in
            device.offsets.indices.allSatisfy { device.offsets[$0] >= tops[index(device.user, $0)] }
        }
    }

    // MARK: Steps

    /// Handles an event that is not the next one. Returns whether it counts as received.
    private func misplaced(_ arrival: Arrival, _ last: Int64, _ device: Recipient) -> Bool {
        if arrival.offset > last {
            for offset in (last + 1)..<arrival.offset where gaps.count < Limits.gapsKept {
                gaps.insert(Gap(device: device.number, topic: arrival.topic, offset: offset))
            }
            faults.lost += Int(arrival.offset - last - 1)
            device.offsets[arrival.topic] = arrival.offset
            return true
        }
        guard gaps.remove(Gap(device: device.number, topic: arrival.topic, offset: arrival.offset)) != nil else {
            faults.duplicate += 1
            return false
        }
        faults.lost -= 1
        faults.outOfOrder += 1
        return true
    }

    /// The first device to get an event sets what the others must get.
    private func compare(_ arrival: Arrival) {
        let index = index(arrival.user, arrival.topic)
        guard arrival.offset > streams[index].top else {
            if let checksum = streams[index].checksum(at: arrival.offset), checksum != arrival.checksum {
                faults.different += 1
            }
            return
        }
        streams[index].append(arrival.offset, arrival.checksum, isKept: devicesPerUser > 1)
        guard rows.indices.contains(arrival.row) else { return }
        if arrival.revision != rows[arrival.row].revision + 1 || arrival.revision > book.revision(arrival.row) {
            faults.revision += 1
        }
        rows[arrival.row].revision = arrival.revision
    }

    private func index(_ user: Int, _ topic: Int) -> Int { user * population.names.topics.count + topic }
}

/// An event that a device missed although it got a later one.
private struct Gap: Hashable {
    let device: Int
    let topic: Int
    let offset: Int64
}

/// A stream's latest offset, and checksums of its latest events.
private struct StreamRecord {
    private(set) var top: Int64 = -1
    private var checksums: ContiguousArray<UInt64> = []

    mutating func append(_ offset: Int64, _ checksum: UInt64, isKept: Bool) {
        top = offset
        guard isKept else { return }
        if checksums.isEmpty { checksums = ContiguousArray(repeating: 0, count: Limits.contentsKept) }
        checksums[Int(offset % Int64(Limits.contentsKept))] = checksum
    }

    func checksum(at offset: Int64) -> UInt64? {
        guard !checksums.isEmpty, offset >= 0, top - offset < Int64(Limits.contentsKept) else { return nil }
        return checksums[Int(offset % Int64(Limits.contentsKept))]
    }
}

/// A row, as known from its events.
private struct RowRecord {
    /// The last one seen; rows are inserted at 1.
    var revision: Int64 = 1
    /// Deliveries of all its revisions. A multiple of the number of devices once all have the last one.
    var receipts = 0
}
