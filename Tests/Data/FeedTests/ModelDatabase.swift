import Bytes
import Feed
import Sync

/// A model of PostgreSQL, as far as the tail relies on it: transaction ids assigned at the first write, snapshots, streams
/// locked from numbering to commit, offsets returned by a rollback.
struct ModelDatabase {
    struct Entry: Equatable {
        let stream: StreamID
        let offset: Int64
        let xid: UInt64
        let data: String
    }

    /// Like `pg_snapshot`: transactions not before `xmax`, or in `running`, are invisible.
    struct Snapshot: Equatable {
        let xmax: UInt64
        let running: Set<UInt64>

        var text: String { "\(xmax):" + running.sorted().map(String.init).joined(separator: ",") }

        init(xmax: UInt64, running: Set<UInt64>) {
            self.xmax = xmax
            self.running = running
        }

        init(text: String) {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false)
            xmax = UInt64(parts[0]) ?? 0
            running = Set(parts[1].split(separator: ",").compactMap { UInt64($0) })
        }

        func sees(_ xid: UInt64) -> Bool { xid < xmax && !running.contains(xid) }
    }

    private(set) var log: [Entry] = []
    private(set) var epoch = 1
    private(set) var tops: [StreamID: Int64] = [:]
    private var writing: [UInt64: [Entry]] = [:]
    private var locks: [StreamID: UInt64] = [:]
    private var nextXID: UInt64 = 100
    private var latestCompleted: UInt64 = 99

    var writers: [UInt64] { writing.keys.sorted() }

    // MARK: Writers

    mutating func begin() -> UInt64 {
        let xid = nextXID
        nextXID += 1
        writing[xid] = []
        return xid
    }

    /// Returns false if another writer holds the stream, for which this one would wait.
    mutating func append(_ xid: UInt64, _ stream: StreamID) -> Bool {
        guard locks[stream, default: xid] == xid else { return false }
        locks[stream] = xid
        let mine = writing[xid, default: []].filter { $0.stream == stream }.count
        let offset = tops[stream, default: 0] + Int64(mine) + 1
        writing[xid]?.append(
            Entry(stream: stream, offset: offset, xid: xid, data: "\(stream.user):\(offset):\(epoch):\(xid)"))
        return true
    }

    /// Returns whether anything was committed that a NOTIFY reports.
    mutating func end(_ xid: UInt64, commit: Bool) -> Bool {
        let entries = writing.removeValue(forKey: xid) ?? []
        latestCompleted = max(latestCompleted, xid)
        locks = locks.filter { $0.value != xid }
        guard commit else { return false }
        log += entries
        for entry in entries { tops[entry.stream] = entry.offset }
        return !entries.isEmpty
    }

    /// The retention job: deletes the oldest events.
    mutating func retain(_ count: Int) {
        log.removeFirst(min(count, log.count))
    }

    /// A restore to an earlier state, shown by the timeline: all connections and writers are gone.
    mutating func restore(droppingLast count: Int) {
        for xid in writers { _ = end(xid, commit: false) }
        log.removeLast(min(count, log.count))
        epoch += 1
        tops = tops.mapValues { _ in 0 }
        for entry in log { tops[entry.stream] = max(tops[entry.stream, default: 0], entry.offset) }
        // In `sql/`, streams keep their top even if all of their events have expired; the model lets them start anew.
    }

    /// `sync.new_epoch`: every client must fetch anew, and no connection is lost.
    mutating func newEpoch() {
        epoch += 1
    }

    // MARK: What the hub functions return

    var snapshot: Snapshot {
        Snapshot(xmax: latestCompleted + 1, running: Set(writing.keys.filter { $0 <= latestCompleted }))
    }

    func position(_ stream: StreamID) -> StreamPosition {
        StreamPosition(epoch: "e\(epoch)", offset: tops[stream, default: 0])
    }

    func replay(_ stream: StreamID, after: Int64, page: Int) -> ModelPage {
        let rows = log.filter { $0.stream == stream && $0.offset > after }.sorted { $0.offset < $1.offset }
        return ModelPage(rows: Array(rows.prefix(page)))
    }

    func tail(_ isNew: (UInt64) -> Bool) -> ModelPage {
        ModelPage(
            rows: log.filter { isNew($0.xid) }.sorted {
                ($0.stream.user, $0.stream.topic, $0.offset) < ($1.stream.user, $1.stream.topic, $1.offset)
            })
    }
}

/// Rows for the tail machine.
struct ModelPage: EventPage {
    let rows: [ModelDatabase.Entry]

    var count: Int { rows.count }
    func isSameStream(_ row: Int) -> Bool { row > 0 && rows[row].stream == rows[row - 1].stream }
    func stream(_ row: Int) -> StreamID? { rows[row].stream }
    func offset(_ row: Int) -> Int64? { rows[row].offset }

    func event(_ row: Int, _ stream: StreamID, _ offset: Int64) -> StreamEvent? {
        StreamEvent(stream: stream, offset: offset, name: "changed", data: SharedBytes.copy(rows[row].data))
    }
}
